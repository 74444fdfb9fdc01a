//! `leasehold release --force`: ends somebody else's hold.

use leasehold::{LockError, LockName, LockState};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::lock_view::LockView;
use crate::terminal::print;
use crate::url::Place;

pub(crate) async fn run(args: &args::Release, place: &Place<'_>) -> Result<Exit, Failure> {
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    if !args.force {
        return Err(Failure::new(Exit::Usage, refusal(&name)));
    }
    let client = place.connect().await?;
    let ended = client.evict(&name).await?;
    if ended.is_empty() {
        print(format!("nobody held {name}"))?;
    }
    for holder in ended {
        let view = LockView::from(LockState::new(name.clone(), Some(holder), None));
        print(format!("ended the hold of {} by {}", view.name, view.holder()))?;
    }
    Ok(Exit::Done)
}

fn refusal(name: &LockName) -> String {
    format!(
        "a hold that is not ours is ended only with --force: its holder is not asked, and may go \
         on until it next renews; see who that is by `leasehold inspect {name}`"
    )
}
