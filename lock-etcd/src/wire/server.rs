//! The cluster for the rest of the crate: one member at a time, with the change to another one.
//!
//! Requests go to one member over one connection. The library's own balancing also sends calls to dead members. So a
//! client keeps to one member that answers, and turns to the next in three cases. The member reports an internal
//! failure; it cannot be reached; or a caller gave a call up after a long silence, as with a stopped member or a
//! network that swallows.
//!
//! Each client draws its preferred member, so that the clients are spread over all of them. It returns to that member
//! when it answers again.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, Error, GetOptions, GetResponse, ResponseHeader, Txn, TxnOp, TxnResponse,
};
use futures_util::future::FutureExt;
use lock_core::backend::{Batches, Login, PendingReply, ReplyMonitor};
use lock_core::{BackendError, Certificates, Credentials};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use crate::options::Target;
use crate::wire::answer::Answer;
use crate::wire::error::{
    BACKEND, classify, ended_silently, forgotten_login, is_refused_login, is_tls_alert,
    refused_by_plain, refused_by_tls, spoils_connection,
};
use crate::wire::identity::Identity;

/// If a caller leaves after this much silence, the connection is suspect. If it leaves earlier, it only changed its
/// mind. A healthy commit takes a hundredth of this span.
pub(crate) const SUSPECT_AFTER: Duration = Duration::from_millis(250);

/// Longest wait for each member's first answer.
const FIRST_LIMIT: Duration = Duration::from_secs(2);

/// The members, and the connection to one of them.
pub(crate) struct Server {
    endpoints: Vec<String>,
    options: ConnectOptions,
    /// The certificates of connections by TLS.
    certificates: Option<Certificates>,
    login: Login,
    /// The key that a probe reads.
    probed: String,
    /// Number of this client's preferred member.
    home: usize,
    current: Mutex<Arc<Link>>,
    identity: Identity,
}

/// One connection, or the attempt to open it, which callers share.
pub(crate) struct Link {
    /// Number of the member.
    number: usize,
    client: OnceCell<Client>,
    replies: ReplyMonitor,
    writes: Batches<Txn, Answer>,
    /// Keys whose revisions are read together.
    pub(crate) reads: Batches<String, Option<i64>>,
    retired: watch::Sender<bool>,
}

impl Server {
    pub(crate) fn new(target: Target, probed: String) -> Self {
        let Target { endpoints, options, certificates, login, .. } = target;
        let home = rand::random_range(0..endpoints.len());
        let current = Mutex::new(Arc::new(Link::to(home)));
        let identity = Identity::default();
        Self { endpoints, options, certificates, login, probed, home, current, identity }
    }

    /// Returns a cluster that nothing reaches.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Arc<Self> {
        let target = crate::EtcdOptions::new("etcd://127.0.0.1:1").target().expect("a good URL");
        Arc::new(Self::new(target, String::new()))
    }

    /// Sends one request to the connected member. A failure that may pass names the member.
    pub(crate) async fn request<T, F>(
        &self,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let link = self.link();
        let reply = self.request_over(&link);
        let (answer, was_open) = match self.client(&link).await {
            Ok(client) => (request(client).await, true),
            Err(error) => (Err(error), false),
        };
        reply.received();
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // The driver renews an expired login by the credentials of its connection. The provider may have others now.
        let is_outdated = was_open && self.login.is_provided() && is_refused_login(&error);
        if is_outdated || spoils_connection(&error) {
            self.retire(&link);
        }
        let mut error = if is_outdated { forgotten_login(&error) } else { classify(error) };
        if let Some(certificates) = self.certificates.as_ref().filter(|_| is_tls_alert(&error)) {
            error = refused_by_tls(error, &certificates.doubt().await);
        }
        let host = self.endpoints[link.number].rsplit('/').next().unwrap_or_default();
        Err(if error.is_transient() { error.at(host) } else { error })
    }

    /// Carries out a transaction.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<Answer, BackendError> {
        let txn = |mut client: Client| async move { client.txn(txn).await };
        Answer::of(&self.on_store(TxnResponse::header, txn).await?)
    }

    /// Reads keys.
    pub(crate) async fn get(
        &self,
        key: impl Into<Vec<u8>>,
        options: impl Into<Option<GetOptions>>,
    ) -> Result<GetResponse, BackendError> {
        let (key, options) = (key.into(), options.into());
        let get = |mut client: Client| async move { client.get(key, options).await };
        self.on_store(GetResponse::header, get).await
    }

    /// Writes on the keys that start with `lock`, together with writes of others for other locks at the same time.
    ///
    /// A small write costs mostly its request and its way through the cluster's log. As a part of one transaction,
    /// each write has its own comparisons and its own answer. But the server compares for all parts before it carries
    /// out the first one. Claims that are granted together have one token, each for a different lock (C22).
    pub(crate) async fn write_together(
        self: &Arc<Self>,
        lock: &str,
        write: impl Fn() -> Txn,
    ) -> Result<Answer, BackendError> {
        let (link, server) = (self.link(), self.clone());
        let reply = self.request_over(&link);
        // Boxed, and only if it is sent: the futures of the driver are large.
        let alone = async { self.txn(write()).boxed().await };
        let together = |writes| async move { server.write_all(writes).await }.boxed();
        let answer = link.writes.ask(lock, &write, alone, together).await;
        reply.received();
        answer
    }

    /// Carries out writes for several locks as one.
    async fn write_all(&self, writes: Vec<Txn>) -> Result<Vec<Option<Answer>>, BackendError> {
        let answers = match <[Txn; 1]>::try_from(writes) {
            Ok([alone]) => vec![self.txn(alone).await?],
            Err(writes) => {
                let parts: Vec<TxnOp> = writes.into_iter().map(TxnOp::txn).collect();
                self.txn(Txn::new().and_then(parts)).await?.of_each()?
            }
        };
        Ok(answers.into_iter().map(Some).collect())
    }

    /// Sends a request that reads or writes keys. An answer of another store than the known one, or of an earlier
    /// state of it, is refused ([`Identity`]).
    pub(crate) async fn on_store<T, F>(
        &self,
        header: impl Fn(&T) -> Option<&ResponseHeader>,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (link, least) = (self.link(), self.identity.revision());
        let answer = self.request(request).await?;
        let checked = self.identity.check(header(&answer), least);
        if checked.is_err() {
            self.retire(&link);
        }
        checked.map(|()| answer)
    }

    /// Returns the id of the cluster; 0 until the first answer.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.identity.cluster()
    }

    /// Returns true if the last answer came from another store.
    pub(crate) fn is_astray(&self) -> bool {
        self.identity.is_astray()
    }

    /// Checks that one of the members answers and accepts us.
    pub(crate) async fn first_answer(&self, key: &str) -> Result<(), BackendError> {
        let mut tries = self.members();
        loop {
            let options = GetOptions::new().with_count_only().with_serializable();
            let answer = timeout(FIRST_LIMIT, self.get(key, options)).await;
            tries -= 1;
            match answer {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) if tries == 0 || !error.is_transient() => {
                    return Err(match &self.certificates {
                        _ if !ended_silently(&error) => error,
                        None => refused_by_plain(error),
                        Some(certificates) => refused_by_tls(error, &certificates.doubt().await),
                    });
                }
                Err(_) if tries == 0 => return Err(BackendError::no_answer(BACKEND, FIRST_LIMIT)),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Notes that a request is about to be sent over a connection, so that its silence is noticed (C17).
    fn request_over<'a>(&'a self, link: &'a Arc<Link>) -> PendingReply<'a, impl FnOnce()> {
        link.replies.request_sent(SUSPECT_AFTER, || self.retire(link))
    }

    /// Returns to this client's preferred member, if it answers again.
    pub(crate) async fn come_home(&self) {
        let (away, least) = (self.link(), self.identity.revision());
        if away.number == self.home {
            return;
        }
        let Ok(client) = self.connect(self.home).await else { return };
        if let Ok(answer) = probe(client.clone(), self.probed.clone()).await
            && self.identity.is_of(answer.header(), least)
        {
            let home = Link { client: OnceCell::new_with(Some(client)), ..Link::to(self.home) };
            self.turn(&away, home);
        }
    }

    /// Returns the connection in use.
    pub(crate) fn link(&self) -> Arc<Link> {
        self.current.lock().clone()
    }

    /// Returns the client of a connection, which is made and logged in when it is first needed.
    pub(crate) async fn client(&self, link: &Link) -> Result<Client, Error> {
        let connect = || self.connect(link.number);
        link.client.get_or_try_init(connect).await.cloned()
    }

    /// Returns the number of members.
    pub(crate) fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// Opens a separate connection to one member, with the login and the certificates as they are now.
    pub(crate) async fn connect(&self, number: usize) -> Result<Client, Error> {
        self.login.log_in(|given| self.connect_as(number, given), is_refused_login).await
    }

    async fn connect_as(&self, number: usize, given: Option<Credentials>) -> Result<Client, Error> {
        let options = match given.filter(|given| *given != Credentials::default()) {
            Some(Credentials { user, secret }) => self.options.clone().with_user(user, secret),
            None => self.options.clone(),
        };
        let options = match &self.certificates {
            Some(certificates) => with_tls(options, certificates).await?,
            None => options,
        };
        Client::connect([&*self.endpoints[number]], Some(options)).await
    }

    /// Lets the next call turn to the next member, unless one has already.
    pub(crate) fn retire(&self, link: &Arc<Link>) {
        self.turn(link, Link::to((link.number + 1) % self.endpoints.len()));
    }

    /// Replaces a connection by another, unless an earlier call has replaced it already.
    fn turn(&self, from: &Arc<Link>, to: Link) {
        let mut current = self.current.lock();
        if Arc::ptr_eq(&current, from) {
            *current = Arc::new(to);
            from.retired.send_replace(true);
        }
    }
}

impl Link {
    fn to(number: usize) -> Self {
        let (client, replies, writes, reads) = Default::default();
        let retired = watch::Sender::new(false);
        Self { number, client, replies, writes, reads, retired }
    }

    /// Returns once requests use another connection.
    pub(crate) async fn retired(&self) {
        let _ = self.retired.subscribe().wait_for(|retired| *retired).await;
    }
}

#[cfg(feature = "tls")]
async fn with_tls(
    options: ConnectOptions,
    certificates: &Certificates,
) -> Result<ConnectOptions, Error> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    let read = certificates.read().await.map_err(std::io::Error::other)?;
    let tls = match read.authority {
        Some(pem) => TlsOptions::new().ca_certificate(Certificate::from_pem(pem)),
        None => TlsOptions::new().with_enabled_roots(),
    };
    Ok(options.with_tls(match read.identity {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    }))
}

#[cfg(not(feature = "tls"))]
async fn with_tls(options: ConnectOptions, _: &Certificates) -> Result<ConnectOptions, Error> {
    Ok(options)
}

/// Reads if a key exists. The member must ask the cluster for the answer.
async fn probe(mut client: Client, key: String) -> Result<GetResponse, Error> {
    client.get(key, Some(GetOptions::new().with_count_only())).await
}
