//! Serves the shop of the first hour until a signal ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use super::example::Example;
use crate::step::{self, Done, Failure};

/// Signals by which a terminal, systemd and Kubernetes end a service.
const SIGNALS: [&str; 2] = ["-INT", "-TERM"];

/// Sells one lamp, sends a signal, and checks that the service ends by itself.
pub(super) fn run(shop: &Example) -> Done {
    SIGNALS.iter().try_for_each(|signal| {
        let serve = ["--serve", "127.0.0.1:0"];
        let mut shop = shop.command().args(serve).stdout(Stdio::piped()).spawn()?;
        let ended = end(&mut shop, signal);
        // Ends an example that did not end by the signal.
        let _ = shop.kill();
        ended
    })
}

fn end(shop: &mut Child, signal: &str) -> Done {
    let output = shop.stdout.take().ok_or_else(|| Failure::new("the shop has no output"))?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once("http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    });
    let address = address.ok_or_else(|| Failure::new("the shop does not serve"))?;
    let mut buyer = TcpStream::connect(address)?;
    buyer.write_all(b"POST /buy/lamp HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    buyer.read_to_string(&mut answer)?;
    step::run(step::command("kill").arg(signal).arg(shop.id().to_string()))?;
    match (shop.wait()?.code(), answer.starts_with("HTTP/1.1 200")) {
        (Some(0), true) => Ok(()),
        (code, _) => Err(Failure::new(format!(
            "the shop ended with {code:?} on kill {signal}, and answered: {answer}"
        ))),
    }
}
