//! A line of the input of `hold --json-lines`.

use std::time::Duration;

use leasehold::{LockName, MultiRequest};
use serde::Deserialize;
use serde_json::Value;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::request::{names, request, wait};

/// The request of a line.
pub(super) enum Asked {
    Acquire { id: String, names: Vec<LockName>, request: Box<MultiRequest> },
    Release(String),
}

impl Asked {
    /// Reads a line. The command line gives the missing parts. An error has the id of the line, if there is one.
    pub(super) fn read(line: &[u8], args: &args::Hold) -> Result<Self, (Option<String>, Failure)> {
        let value: Value =
            serde_json::from_slice(line).map_err(|error| (None, unreadable(&error)))?;
        let id = named_in(&value);
        let line = serde_json::from_value(value).map_err(|error| unreadable(&error));
        line.and_then(|line| Self::of(line, args)).map_err(|failure| (id, failure))
    }

    fn of(mut line: Line, args: &args::Hold) -> Result<Self, Failure> {
        match (line.acquire.take(), line.release.take()) {
            (None, Some(id)) => Ok(Self::Release(id)),
            (Some(typed), None) => {
                let typed = match typed {
                    Names::One(name) => vec![name],
                    Names::Several(names) => names,
                };
                let [first, ..] = &*typed else { return Err(usage("name a lock")) };
                let id = line.id.clone().unwrap_or_else(|| first.clone());
                let public = typed
                    .iter()
                    .chain(&line.label)
                    .try_for_each(|word| args::public(word).map(drop));
                public.map_err(usage)?;
                let names = names(&typed)?;
                let kind = line.kind(&args.request)?;
                let request = request(&names, wait(&kind), &kind, &line.lease(&args.lease));
                Ok(Self::Acquire { id, names, request: Box::new(request) })
            }
            _ => Err(usage("a line has either acquire or release")),
        }
    }
}

/// Returns the id of a line, which may ask for something impossible. No event shows a name with a password.
fn named_in(line: &Value) -> Option<String> {
    let first = || {
        let names = line.get("acquire")?;
        args::public(names.get(0).unwrap_or(names).as_str()?).ok()
    };
    match line.get("id") {
        None | Some(Value::Null) => first(),
        Some(id) => id.as_str().map(str::to_owned),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    acquire: Option<Names>,
    release: Option<String>,
    id: Option<String>,
    ttl_ms: Option<u64>,
    wait_ms: Option<u64>,
    #[serde(default)]
    shared: bool,
    limit: Option<u16>,
    take: Option<u16>,
    label: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "acquire is a name, or an array of names")]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Line {
    fn kind(&self, args: &args::Request) -> Result<args::Request, Failure> {
        if self.shared && self.limit.is_some() {
            return Err(usage("a hold is either shared or one of a limit"));
        }
        if self.take.is_some() && self.limit.is_none() {
            return Err(usage("take goes with limit"));
        }
        Ok(args::Request {
            wait: self.wait_ms.map(Duration::from_millis).or(args.wait),
            no_wait: self.wait_ms.map_or(args.no_wait, |span| span == 0),
            shared: self.shared,
            limit: self.limit,
            take: self.take,
        })
    }

    fn lease(&self, args: &args::Lease) -> args::Lease {
        args::Lease {
            ttl: self.ttl_ms.map_or(args.ttl, Duration::from_millis),
            label: self.label.clone().or_else(|| args.label.clone()),
        }
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    usage(&format!("a line is not understood: {error}"))
}

fn usage(text: &str) -> Failure {
    Failure::new(Exit::Usage, text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn arguments() -> args::Hold {
        let hold = args::Cli::parse_from(["leasehold", "hold", "--json-lines"]);
        let args::Command::Hold(hold) = hold.command else { panic!("another command") };
        hold
    }

    #[test]
    fn a_line_that_is_refused_is_answered_under_its_id() {
        for (line, id) in [
            (r#"{"acquire":"a","id":"1","shared":true,"limit":3}"#, Some("1")),
            (r#"{"acquire":"a","shared":true,"limit":3}"#, Some("a")),
            (r#"{"acquire":["a","b"],"id":null,"take":3}"#, Some("a")),
            (r#"{"acquire":"redis://u:secret@h","take":3}"#, None),
            (r#"{"acquire":"a","id":1}"#, None),
            (r#"{"acquire":[]}"#, None),
        ] {
            let refused = Asked::read(line.as_bytes(), &arguments()).map(drop).expect_err(line);
            assert_eq!(refused.0.as_deref(), id, "{line}");
        }
    }

    /// Any line asks for something, or is refused as wrong usage.
    #[test]
    fn fuzz_lines() {
        const WORDS: &[&str] = &[
            "{", "}", "\"acquire\":", "\"release\":", "\"id\":", "\"a\"", "[", "]", ",",
            "\"ttl_ms\":", "\"wait_ms\":", "\"shared\":true", "\"limit\":", "\"take\":",
            "\"label\":", "null", "{\"acquire\":\"a\",", "{\"acquire\":[",
            "\"redis://u:s3cr3t@h\"", "\\u0000",
        ];
        let hold = arguments();
        lock_fuzz::check(|parts| {
            let line = lock_fuzz::text(WORDS, parts);
            if let Err((_, failure)) = Asked::read(line.as_bytes(), &hold) {
                assert_eq!(failure.exit().number(), Exit::Usage.number());
                let told = serde_json::to_string(&crate::event::Event::from(failure));
                lock_fuzz::assert_secret_is_kept(&told.expect("a line"), &line);
            }
        });
    }
}
