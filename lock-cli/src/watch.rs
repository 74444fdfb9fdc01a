//! `leasehold watch`: a line for each change of a lock.

use std::time::{Duration, SystemTime};

use leasehold::{LockClient, LockError};
use tokio::time::{MissedTickBehavior, interval};

use crate::args;
use crate::exit::{Exit, Failure, chain};
use crate::seen::Seen;
use crate::terminal::{self, check_reader, print, print_json};
use crate::url;

/// Backends tell waiters of changes, not those who only look.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: &args::Watch, url: Option<&str>) -> Result<Exit, Failure> {
    let client = url::connect(url).await?;
    let mut last = look(&client, &args.name).await?;
    tell(&last, args.json)?;
    let (mut ticks, mut away) = (interval(LOOKS_EVERY), false);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        check_reader()?;
        match look(&client, &args.name).await {
            Ok(seen) if away || seen.differs_from(&last) => {
                tell(&seen, args.json)?;
                (last, away) = (seen, false);
            }
            Ok(_) => {}
            // It comes back, or the one who watches sees that it does not.
            Err(error) if !std::mem::replace(&mut away, true) => {
                terminal::warning(&format!("{}; still watching", chain(&error)));
            }
            Err(_) => {}
        }
    }
}

async fn look(client: &LockClient, name: &str) -> Result<Seen, LockError> {
    client.inspect(name).await.map(Seen::from)
}

fn tell(seen: &Seen, json: bool) -> std::io::Result<()> {
    if json {
        return print_json(seen);
    }
    print(format!("{} {seen}", humantime::format_rfc3339_seconds(SystemTime::now())))
}
