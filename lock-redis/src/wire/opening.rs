//! Opens the connection of a link.

use std::io;
use std::net::SocketAddr;

use futures_util::future::{FutureExt, select_ok};
use lock_core::backend::Login;
use lock_core::{Certificates, Credentials};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo,
    RedisError,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::protocol::error::is_refused_login;
use crate::wire::socket::Socket;

/// The opener of connections to one server, with the login and the certificates as they are then.
#[derive(Clone)]
pub(crate) struct Opener {
    client: Client,
    certificates: Certificates,
    login: Login,
}

impl Opener {
    pub(crate) fn new(client: Client, certificates: Certificates, login: Login) -> Self {
        Self { client, certificates, login }
    }

    /// Returns the server, the login and the settings of connections.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    pub(crate) fn is_by_tls(&self) -> bool {
        matches!(self.info().addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Returns the opener of connections to another server in the same way.
    pub(crate) fn at(&self, host: &str, port: u16) -> Result<Self, RedisError> {
        let (info, host) = (self.info().clone(), host.to_owned());
        let address = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.with(info.set_addr(address))
    }

    fn with(&self, info: ConnectionInfo) -> Result<Self, RedisError> {
        Ok(Self { client: Client::open(info)?, ..self.clone() })
    }

    /// Returns the opener with other settings: login, database and protocol.
    pub(crate) fn with_settings(&self, settings: RedisConnectionInfo) -> Result<Self, RedisError> {
        self.with(self.info().clone().set_redis_settings(settings))
    }

    /// Returns the opener with the provider's credentials at sentinels.
    #[cfg(feature = "sentinel")]
    pub(crate) fn at_sentinels(self) -> Self {
        Self { login: self.login.at_sentinels(), ..self }
    }

    /// Opens a connection by `open`, which gets an opener with the credentials to use.
    pub(crate) async fn log_in<T, F>(&self, open: impl Fn(Self) -> F) -> Result<T, RedisError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let open = |given| {
            let opener = self.with_credentials(given);
            let opening = opener.map(&open);
            // On the heap, since it is larger than the rest.
            Box::pin(async move { opening?.await })
        };
        self.login.log_in(open, is_refused_login).await
    }

    /// Returns the opener with these credentials. An empty part leaves that of the URL.
    fn with_credentials(&self, given: Option<Credentials>) -> Result<Self, RedisError> {
        let Some(Credentials { user, secret }) = given else { return Ok(self.clone()) };
        let mut settings = self.info().redis_settings().clone();
        if !user.is_empty() {
            settings = settings.set_username(user);
        }
        if !secret.is_empty() {
            settings = settings.set_password(secret);
        }
        self.with_settings(settings)
    }

    /// Returns the driver's client for one connection, with the certificates as they are now.
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    pub(crate) async fn client(&self) -> Result<Client, RedisError> {
        if !self.is_by_tls() || self.certificates == Certificates::new() {
            return Ok(self.client.clone());
        }
        let read = self.certificates.read().await.map_err(io::Error::other)?;
        let client_tls = read
            .identity
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key });
        let certificates = redis::TlsCertificates { client_tls, root_cert: read.authority };
        Client::build_with_tls(self.info().clone(), certificates)
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    pub(crate) async fn client(&self) -> Result<Client, RedisError> {
        Ok(self.client.clone())
    }

    /// Adds to the error of a connection by TLS why the server may have refused this client.
    pub(crate) async fn explained(&self, error: RedisError) -> RedisError {
        let text = error.to_string();
        if error.kind() == ErrorKind::InvalidClientConfig {
            // No lasting refusal: while files are replaced, a certificate may be there before its key.
            io::Error::other(format!("the certificate and its key: {text}")).into()
        } else if error.is_connection_dropped() || text.contains("alert") {
            let doubt = self.certificates.doubt().await;
            io::Error::other(format!("{text}: the handshake failed: {doubt}")).into()
        } else {
            error
        }
    }
}

/// Opens a connection, and the future that moves its bytes.
pub(crate) async fn open(
    opener: &Opener,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let info = opener.info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            over(tcp(host, *port, info.tcp_settings()).await?, info, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            over(tokio::net::UnixStream::connect(path).await?, info, config).await
        }
        // With TLS the driver returns no stream: it moves the bytes in its own task.
        _ => {
            let client = opener.client().await?;
            let driver = client.get_multiplexed_async_connection_with_config(config).await?;
            Ok((driver, Socket::new(None)))
        }
    }
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    info: &ConnectionInfo,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let settings = info.redis_settings();
    let (driver, bytes) =
        MultiplexedConnection::new_with_config(settings, stream, config.clone()).await?;
    Ok((driver, Socket::new(Some(bytes.boxed()))))
}

/// Returns the ways to a server: one, or one for each address of its host's name. By TLS the driver chooses the address,
/// since the certificate is checked against the name.
pub(crate) async fn ways(opener: &Opener) -> Result<Vec<Opener>, RedisError> {
    let ConnectionAddr::Tcp(host, port) = opener.info().addr() else {
        return Ok(vec![opener.clone()]);
    };
    let addresses: Vec<SocketAddr> = lookup_host((&**host, *port)).await?.collect();
    match addresses.len() {
        0 | 1 => Ok(vec![opener.clone()]),
        _ => addresses.iter().map(|way| opener.at(&way.ip().to_string(), way.port())).collect(),
    }
}

/// Returns a connection to the first address of the host that accepts one.
async fn tcp(host: &str, port: u16, settings: &TcpSettings) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    let attempts = addresses.into_iter().map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(attempts).await?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(stream)
}
