use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::topology::options::RedisOptions;

fn request() -> (Request, tokio::sync::oneshot::Receiver<Reply>) {
    Request::new(cmd("PING").into(), Manner::Plain, Outstanding::begin(&Arc::default()).0)
}

/// A withdrawal of its claim may have been sent meanwhile.
#[test]
fn c19_what_was_left_goes_no_more_once_its_caller_has_left() {
    let ((wanted, _caller), (unwanted, gone), (later, _waits)) = (request(), request(), request());
    drop(gone);
    let mut batch = vec![later];
    leave(&mut batch, vec![unwanted, wanted]);
    assert_eq!(batch.len(), 2);
    assert!(batch.iter().all(Request::is_wanted));
}

/// Starts a server that answers ROLE in this way, and all else by PONG; returns a way to it.
async fn server(role: &'static str) -> Opener {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                while let Ok(read @ 1..) = client.read(&mut request).await {
                    for command in request[..read].split(|byte| *byte == b'*').skip(1) {
                        let is_role = command.windows(4).any(|word| word == b"ROLE");
                        let answer = if is_role { role } else { "+PONG\r\n" };
                        client.write_all(answer.as_bytes()).await.expect("it is read");
                    }
                }
            });
        }
    });
    way(port)
}

fn way(port: u16) -> Opener {
    RedisOptions::new(format!("redis://127.0.0.1:{port}")).opener().expect("a URL")
}

const PRIMARY: &str = "*1\r\n$6\r\nmaster\r\n";
const A_REPLICA: &str = "*1\r\n$5\r\nslave\r\n";
const NO_RIGHT: &str = "-NOPERM this user has no permissions to run the 'role' command\r\n";

/// C15: a name may lead to a replica first, or to a server that is away.
#[tokio::test]
async fn c15_each_address_of_a_name_is_tried() {
    let away = way(1);
    for good in [PRIMARY, NO_RIGHT] {
        let ways = [away.clone(), server(A_REPLICA).await, server(good).await];
        let opened = connected_by_any(&ways, Role::Any).await.expect("the last one is good");
        let address = |way: &Opener| way.info().addr().to_string();
        assert_eq!(address(&opened.way), address(&ways[2]));
    }
    let ways = [away, server(A_REPLICA).await];
    let refused = connected_by_any(&ways, Role::Any).await.map(drop).expect_err("none is good");
    let text = refused.to_string();
    let addresses = ways.map(|way| way.info().addr().to_string());
    assert!(addresses.iter().all(|address| text.contains(address)), "{text}");
    assert!(text.contains(REPLICA) && text.contains("refused"), "{text}");
}
