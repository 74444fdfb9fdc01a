use super::*;

const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIUMApcaoEgJiUyntZodfHbJ51cvmEwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYTAeFw0yNjExMzAwNTA5MjZaFw0yNjEyMDEwNTA5MjZaMAwx
CjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQwDLXrZ+yu9Kmv
u0a2N/qVaFlBU0ERg5aXN35/MKgroT2bWFEPjgTdPp7XpkYju7bNpxjuQwkHAhb/
sIIwScPLo1MwUTAdBgNVHQ4EFgQUFMNKTqWrUTJ6757ko84w1y+i5LIwHwYDVR0j
BBgwFoAUFMNKTqWrUTJ6757ko84w1y+i5LIwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiBpEi36rryFuYYir8srz+N0afM8GvryjMqH28G7rIAR6QIh
AL16V776C6xgvvBTJLnbhO8kGacEnksMW36ArZum0A/+
-----END CERTIFICATE-----
";

const NO_KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

fn of(url: &str) -> Result<Certificates, LockError> {
    UrlParameters::of(url).take_certificates()
}

/// Returns a certificate that is valid until this year of its century.
fn until(year: &str) -> Certificates {
    let end = format!("Fw0{year}");
    Certificates::new()
        .identity(AUTHORITY.replace("Fw0yNjEy", &end).into_bytes(), NO_KEY.as_bytes())
}

#[test]
fn c49_a_url_names_files_percent_encoded() {
    let all = of("x://h?cert=%2Fa%26b&ca=c&key=k").expect("three files");
    let file = |path: &str| Pem::File(path.into());
    assert_eq!(all, Certificates::new().authority(file("c")).identity(file("/a&b"), file("k")));
    assert_eq!(of("x://h").expect("none"), Certificates::new());
    for bad in ["x://h?cert=c", "x://h?key=k", "x://h?ca=", "x://h?cert=&key=k"] {
        assert!(of(bad).expect_err(bad).to_string().contains("`key`"));
    }
    let mut twice = UrlParameters::of("x://h?ca=a&ca=b");
    let _first = twice.take_certificates().expect("the first");
    assert!(twice.refuse_unknown().is_err());
}

/// A file that is missing, not yet whole, of another kind or encrypted is named, with the reason.
#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let name = format!("leasehold-certificates-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let reads = |certificates: Certificates| async move { certificates.read().await };
    let authority = || Certificates::new().authority(&*path);
    let missing = reads(authority()).await.expect_err("missing").to_string();
    assert!(missing.contains(&*path.to_string_lossy()) && missing.contains("(`ca`)"), "{missing}");
    for part in ["", &AUTHORITY[..99], NO_KEY] {
        std::fs::write(&path, part).expect("written");
        let text = reads(authority()).await.expect_err("no certificate").to_string();
        assert!(text.ends_with("has no whole certificate in PEM"), "{text}");
    }
    std::fs::write(&path, AUTHORITY).expect("written");
    let read = reads(authority()).await.expect("whole");
    assert_eq!(read.authority.as_deref(), Some(AUTHORITY.as_bytes()));
    std::fs::remove_file(&path).expect("removed");
    for (key, says) in [
        (AUTHORITY.to_owned(), "has no whole private key"),
        (NO_KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), "is encrypted"),
    ] {
        let identity = Certificates::new().identity(AUTHORITY.as_bytes(), key.as_bytes());
        let error = reads(identity).await.expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
        assert!(LockError::from(error).to_string().contains("`key`"));
    }
}

#[tokio::test]
async fn c32_the_cause_of_a_refusal_is_named_without_the_key() {
    assert!(Certificates::new().doubt().await.contains("this client has none"));
    // The base64 of 06 and 46.
    let (expired, foreign) = (until("wNjEy"), until("0NjEy"));
    let told = expired.doubt().await;
    assert!(told.contains("`cert` has expired, at 2006-12-01 05:09:26"), "{told}");
    assert!(foreign.doubt().await.contains("may not trust the authority"));
    let shown = format!("{expired:?} {:?} {told}", foreign.read().await);
    assert!(!shown.contains("AAAA"), "{shown}");
}

#[test]
fn the_end_of_a_certificate_is_compared_with_the_time() {
    use std::time::{Duration, UNIX_EPOCH};

    let end = |pem: &str| validity::end(pem.as_bytes());
    assert_eq!(end(AUTHORITY).as_deref(), Some("2026-12-01 05:09:26"));
    assert_eq!(end(LONG).as_deref(), Some("2126-11-06 05:09:26"));
    for (seconds, shown) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_399, "2000-02-28 23:59:59"),
        (951_782_400, "2000-02-29 00:00:00"),
        (1_796_101_766, "2026-12-01 05:09:26"),
        (4_102_444_799, "2099-12-31 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
    ] {
        assert_eq!(validity::at(UNIX_EPOCH + Duration::from_secs(seconds)), shown);
    }
}

/// Any text has an end of validity, or none.
#[test]
fn fuzz_validity() {
    lock_fuzz::check(|(from, parts): &(usize, Vec<u8>)| {
        let cut = &LONG[..LONG.len() * (from % 100) / 100];
        let mut text = cut.as_bytes().to_vec();
        text.extend(parts.iter().map(|part| b"AAAAMIIBcD+/"[usize::from(*part) % 12]));
        text.extend(b"-----END");
        let _ = validity::end(&text);
    });
}

const LONG: &str = "\
-----BEGIN CERTIFICATE-----
MIIBbjCCARWgAwIBAgIUMeThwyit0jgilEVst00m5h37Ym8wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYTAgFw0yNjExMzAwNTA5MjZaGA8yMTI2MTEwNjA1MDkyNlow
DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDAMtetn7K70
qa+7RrY3+pVoWUFTQRGDlpc3fn8wqCuhPZtYUQ+OBN0+ntemRiO7ts2nGO5DCQcC
Fv+wgjBJw8ujUzBRMB0GA1UdDgQWBBQUw0pOpatRMnrvnuSjzjDXL6LksjAfBgNV
HSMEGDAWgBQUw0pOpatRMnrvnuSjzjDXL6LksjAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0cAMEQCIB+kO+nnfRltX7Iyxlstpft/Mvt0SGh9MoJyXSeTgaDs
AiB9HZx1xegH9pz/W/TdwMnBJF/EF11sickLF1LVpqh7GA==
-----END CERTIFICATE-----
";
