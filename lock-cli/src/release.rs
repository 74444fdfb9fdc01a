//! `leasehold release --force`: ends somebody else's hold.

use leasehold::{LockError, LockName, LockState};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::seen::Seen;
use crate::terminal::print;
use crate::url;

pub(crate) async fn run(args: &args::Release, url: Option<&str>) -> Result<Exit, Failure> {
    if !args.force {
        return Err(Failure::new(Exit::Usage, refusal(&args.name)));
    }
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    let client = url::connect(url).await?;
    match client.evict(&name).await? {
        None => print(format!("nobody held {name}"))?,
        Some(holder) => {
            let seen = Seen::from(LockState::new(name, Some(holder), None));
            print(format!("ended the hold of {} by {}", seen.name, seen.holder()))?;
        }
    }
    Ok(Exit::Done)
}

fn refusal(name: &str) -> String {
    format!(
        "a hold that is not ours is ended only with --force: its holder is not asked, and may go \
         on until it next renews; see who that is by `leasehold inspect {}`",
        name.escape_debug()
    )
}
