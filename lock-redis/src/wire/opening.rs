//! Opens the connection of a link.

use std::io;
use std::net::SocketAddr;

use futures_util::future::{FutureExt, select_ok};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::wire::socket::Socket;

/// Opens a connection, and the future that moves its bytes.
pub(crate) async fn open(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let info = client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            over(tcp(host, *port, info.tcp_settings()).await?, client, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            over(tokio::net::UnixStream::connect(path).await?, client, config).await
        }
        // With TLS the driver returns no stream: it moves the bytes in its own task.
        _ => {
            let driver = client.get_multiplexed_async_connection_with_config(config).await?;
            Ok((driver, Socket::new(None)))
        }
    }
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Socket), RedisError> {
    let settings = client.get_connection_info().redis_settings();
    let (driver, bytes) =
        MultiplexedConnection::new_with_config(settings, stream, config.clone()).await?;
    Ok((driver, Socket::new(Some(bytes.boxed()))))
}

/// Returns the ways to a server: one, or one for each address of its host's name. By TLS the driver chooses the address,
/// since the certificate is checked against the name.
pub(crate) async fn ways(client: &Client) -> Result<Vec<Client>, RedisError> {
    let ConnectionAddr::Tcp(host, port) = client.get_connection_info().addr() else {
        return Ok(vec![client.clone()]);
    };
    let addresses: Vec<SocketAddr> = lookup_host((&**host, *port)).await?.collect();
    match addresses.len() {
        0 | 1 => Ok(vec![client.clone()]),
        _ => addresses.iter().map(|way| at(client, &way.ip().to_string(), way.port())).collect(),
    }
}

/// Returns the opener of connections to another server in the same way.
pub(crate) fn at(client: &Client, host: &str, port: u16) -> Result<Client, RedisError> {
    let (info, host) = (client.get_connection_info().clone(), host.to_owned());
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.set_addr(address))
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
