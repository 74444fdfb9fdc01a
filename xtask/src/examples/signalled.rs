//! Ends examples by signals: the flash sale in the middle, and the shop of the first hour while it serves.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};

use super::example::Example;
use crate::step::{self, Done, Failure};
use crate::workspace::target;

/// Signals that end a program in the foreground, in a container, and a service.
const SIGNALS: [&str; 2] = ["-INT", "-TERM"];

pub(super) fn run(sale: &Example, shop: &Example) -> Done {
    SIGNALS.iter().try_for_each(|signal| {
        interrupt(sale, signal)?;
        let serve = ["--serve", "127.0.0.1:0"];
        let mut shop = shop.command().args(serve).stdout(Stdio::piped()).spawn()?;
        let ended = end(&mut shop, signal);
        // Ends an example that did not end by the signal.
        let _ = shop.kill();
        ended
    })
}

/// Sends a signal once the sale has begun, and checks that no process and no file is left.
fn interrupt(sale: &Example, signal: &str) -> Done {
    let folder = target().join("interrupted");
    fs::create_dir_all(&folder)?;
    let mut show = sale.command().env("TMPDIR", &folder).stdout(Stdio::piped()).spawn()?;
    let mut lines = output(&mut show)?.lines();
    // The first act is over, and the workers of the second are running.
    for line in lines.by_ref() {
        if line?.starts_with("no lock") {
            break;
        }
    }
    send(signal, &show)?;
    // Reads to the end of the output, which comes with the end of the main process: the workers share only its
    // standard error.
    lines.for_each(drop);
    let status = show.wait()?;
    let left = fs::read_dir(&folder)?.count();
    fs::remove_dir_all(&folder)?;
    match (status.code(), left) {
        (Some(1), 0) => Ok(()),
        (code, left) => Err(Failure::new(format!(
            "the sale ended with {code:?} on kill {signal}, and left {left} files behind"
        ))),
    }
}

/// Sells one lamp, sends a signal, and checks that the service ends by itself.
fn end(shop: &mut Child, signal: &str) -> Done {
    let mut lines = output(shop)?.lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once("http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    });
    let address = address.ok_or_else(|| Failure::new("the shop does not serve"))?;
    let mut buyer = TcpStream::connect(address)?;
    buyer.write_all(b"POST /buy/lamp HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    buyer.read_to_string(&mut answer)?;
    send(signal, shop)?;
    match (shop.wait()?.code(), answer.starts_with("HTTP/1.1 200")) {
        (Some(0), true) => Ok(()),
        (code, _) => Err(Failure::new(format!(
            "the shop ended with {code:?} on kill {signal}, and answered: {answer}"
        ))),
    }
}

fn output(example: &mut Child) -> Done<BufReader<ChildStdout>> {
    let output = example.stdout.take().ok_or_else(|| Failure::new("the example has no output"))?;
    Ok(BufReader::new(output))
}

fn send(signal: &str, example: &Child) -> Done {
    step::run(step::command("kill").arg(signal).arg(example.id().to_string()))
}
