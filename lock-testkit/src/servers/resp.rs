//! A foreign client: a connection that speaks the wire protocol of Redis and knows nothing of locks.
//!
//! The protocol is RESP2 as <https://redis.io/docs/latest/develop/reference/protocol-spec/> describes it.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than any command of a test, shorter than the time limit of a test.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: the key or element is not there.
    Nil,
    /// A number.
    Integer(i64),
    /// A status or a string. Bytes that are not UTF-8 are replaced.
    Text(String),
    /// An error, with its code in front.
    Error(String),
    /// Several replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// Returns the text.
    ///
    /// # Panics
    /// If the reply is not a text.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// Returns the number, also if it was sent as a text.
    ///
    /// # Panics
    /// If the reply is not a number.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => (other.text().parse()).unwrap_or_else(|_| panic!("not a number: {other:?}")),
        }
    }

    /// Returns the parts.
    ///
    /// # Panics
    /// If the reply is not an array.
    pub fn array(&self) -> &[Reply] {
        match self {
            Self::Array(parts) => parts,
            other => panic!("not an array: {other:?}"),
        }
    }
}

/// One line a value: `(nil)`, the number, the text, `(error) …`, or the parts below each other.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("(nil)"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Error(text) => write!(f, "(error) {text}"),
            Self::Array(parts) => {
                let lines: Vec<_> = parts.iter().map(Reply::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

/// Endpoint of a server.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Stream: Read + Write + fmt::Debug + Send {
    fn set_reply_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_reply_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_reply_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }
}

/// A connection of a foreign client. Calls block for at most five seconds, unless
/// [`set_reply_timeout`](Self::set_reply_timeout) changes that.
#[derive(Debug)]
pub struct Session {
    stream: BufReader<Box<dyn Stream>>,
}

impl Session {
    pub(crate) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match endpoint {
            Endpoint::Tcp(address) => Box::new(TcpStream::connect_timeout(address, REPLY_TIMEOUT)?),
            Endpoint::Unix(path) => Box::new(UnixStream::connect(path)?),
        };
        stream.set_reply_timeout(REPLY_TIMEOUT)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sets the longest wait for a reply, in place of five seconds.
    ///
    /// # Panics
    /// If `timeout` is zero.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        let set = self.stream.get_ref().set_reply_timeout(timeout);
        set.expect("the time-out is not zero");
    }

    /// Sends one command and reads its reply.
    ///
    /// # Panics
    /// If there is no reply within five seconds. An error reply is a [`Reply`].
    pub fn call(&mut self, command: &[&str]) -> Reply {
        self.try_call(command).unwrap_or_else(|error| panic!("no reply to {command:?}: {error}"))
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// If there is no reply within five seconds. An error reply is a [`Reply`].
    pub fn try_call(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(&encode(command))?;
        self.receive()
    }

    /// Reads the next reply without sending a command, such as a message after SUBSCRIBE.
    ///
    /// # Errors
    /// If none comes within five seconds.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number(rest)?)),
            "$" => self.bulk(number(rest)?),
            "*" => self.parts(number(rest)?),
            _ => Err(malformed(&line)),
        }
    }

    fn bulk(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Nil);
        };
        let mut bytes = vec![0; length + "\r\n".len()];
        self.stream.read_exact(&mut bytes)?;
        Ok(Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()))
    }

    fn parts(&mut self, count: i64) -> io::Result<Reply> {
        if count < 0 {
            return Ok(Reply::Nil);
        }
        let parts: io::Result<_> = (0..count).map(|_| self.receive()).collect();
        Ok(Reply::Array(parts?))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches("\r\n").to_owned()),
        }
    }
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len());
    for word in command {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a Redis reply: {text:?}"))
}
