//! `leasehold watch`: a line for each change of a lock.

use std::time::{Duration, SystemTime};

use leasehold::{LockClient, LockError};
use tokio::time::{MissedTickBehavior, interval};

use crate::args;
use crate::exit::{Exit, Failure, chain};
use crate::lock_view::LockView;
use crate::terminal::{self, check_reader, print, print_json};
use crate::url::Place;

/// Backends tell waiters of changes, not those who only look.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: &args::Watch, place: &Place<'_>) -> Result<Exit, Failure> {
    let client = place.connect().await?;
    let mut last = look(&client, &args.name).await?;
    tell(&last, args.json)?;
    let (mut ticks, mut away) = (interval(POLL_INTERVAL), false);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        check_reader()?;
        match look(&client, &args.name).await {
            Ok(view) if away || view.differs_from(&last) => {
                tell(&view, args.json)?;
                (last, away) = (view, false);
            }
            Ok(_) => {}
            // Told once: the server may come back, and the watching goes on meanwhile.
            Err(error) if !std::mem::replace(&mut away, true) => {
                terminal::warning(&format!("{}; still watching", chain(&error)));
            }
            Err(_) => {}
        }
    }
}

async fn look(client: &LockClient, name: &str) -> Result<LockView, LockError> {
    client.inspect(name).await.map(LockView::from)
}

fn tell(view: &LockView, json: bool) -> std::io::Result<()> {
    if json {
        return print_json(view);
    }
    print(format!("{} {view}", humantime::format_rfc3339_seconds(SystemTime::now())))
}
