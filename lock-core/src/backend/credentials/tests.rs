use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Answers with the secrets in turn; with the last one for ever. A missing secret is an error.
#[derive(Clone)]
struct InTurn(Arc<(AtomicUsize, Vec<Option<&'static str>>)>);

impl InTurn {
    fn of(secrets: &[Option<&'static str>]) -> Self {
        Self(Arc::new((AtomicUsize::new(0), secrets.to_vec())))
    }

    fn asked(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl CredentialProvider for InTurn {
    async fn credentials(&self) -> Result<Credentials, BoxError> {
        let (asked, secrets) = &*self.0;
        let number = asked.fetch_add(1, Ordering::Relaxed).min(secrets.len() - 1);
        let secret = secrets[number].ok_or("none is there")?;
        Ok(Credentials::new("app", secret))
    }
}

/// Logs in at a server that accepts `good` alone. Returns the answer, and the number of questions to the provider.
async fn log_in(secrets: &[Option<&'static str>]) -> (Result<(), String>, usize) {
    let provider = InTurn::of(secrets);
    let connect = async |given: Option<Credentials>| match given {
        Some(given) if given == Credentials::new("app", "good") => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let answer = Login::by(provider.clone()).log_in(connect, is_refused).await;
    (answer.map_err(|error| error.to_string()), provider.asked())
}

#[tokio::test]
async fn a_refusal_is_lasting_once_the_provider_has_nothing_newer() {
    assert_eq!(log_in(&[Some("good")]).await, (Ok(()), 1));
    assert_eq!(log_in(&[Some("old"), Some("good")]).await, (Ok(()), 2));
    for lasting in [&[Some("old")][..], &[Some("old"), Some("older"), Some("good")]] {
        let (refused, asked) = log_in(lasting).await;
        assert_eq!((refused.expect_err("refused").contains("denied"), asked), (true, 2));
    }
}

#[tokio::test]
async fn c15_a_provider_that_fails_is_a_passing_failure() {
    for (secrets, asked) in [(&[None][..], 1), (&[Some("old"), None], 2)] {
        let (failed, times) = log_in(secrets).await;
        let failed = failed.expect_err("it has none");
        assert!(failed.contains(NO_CREDENTIALS) && failed.contains("none is there"), "{failed}");
        assert_eq!(times, asked);
    }
    let error = CredentialError("x".to_owned()).of_connection("test");
    assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
}

#[tokio::test(start_paused = true)]
async fn c17_a_silent_provider_is_waited_for_in_bounds() {
    struct Silent;
    #[async_trait]
    impl CredentialProvider for Silent {
        async fn credentials(&self) -> Result<Credentials, BoxError> {
            std::future::pending().await
        }
    }
    let error = Login::by(Silent).credentials().await.expect_err("it is silent").to_string();
    assert!(error.contains("no answer within 5s"), "{error}");
}

#[tokio::test]
async fn without_a_provider_the_login_of_the_url_stays() {
    let connect = async |given: Option<Credentials>| Ok::<_, io::Error>(given);
    assert_eq!(Login::default().log_in(connect, |_| true).await.expect("an answer"), None);
    let at_sentinels = Login::by(InTurn::of(&[Some("good")])).at_sentinels();
    let given = at_sentinels.credentials().await.expect("the default");
    assert_eq!(given, Some(Credentials::default()));
}

#[test]
fn the_login_of_a_url_is_decoded() {
    for (url, user, secret) in [
        ("etcd://u:p%40s@a,b/x", "u", "p@s"),
        ("redis://:p@[::1]:1/0?prefix=a", "", "p"),
        ("postgres://u@h/d?password=p%20q", "u", "p q"),
        ("redis+unix:///a@b?db=1&user=u&pass=p", "u", "p"),
        ("redis://h", "", ""),
        ("file:/a", "", ""),
    ] {
        assert_eq!(Credentials::of_url(url), Credentials::new(user, secret), "{url}");
    }
    let url = "redis-sentinel://u:p@a/m?sentinel_user=s&sentinel_pass=t%2F";
    assert_eq!(Credentials::at_sentinels_of_url(url), Credentials::new("s", "t/"));
}

#[test]
fn c32_no_secret_is_shown() {
    let shown = format!("{:?}", Credentials::new("app", "secret"));
    assert!(shown.contains("app") && !shown.contains("secret"), "{shown}");
    assert!(!format!("{:?}", Login::by(InTurn::of(&[Some("secret")]))).contains("secret"));
}
