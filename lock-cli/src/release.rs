//! `leasehold release --force`: ends another client's hold.

use leasehold::{LockError, LockName};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::lock_view::HolderView;
use crate::terminal::print;
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Release, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    if !args.force {
        return Err(Failure::new(Exit::Usage, refusal(&name)));
    }
    let client = store.connect().await?;
    let ended = match &args.owner {
        None => client.admin().evict(&name).await?,
        Some(owner) => client.admin().evict_owner(&name, owner).await?.into_iter().collect(),
    };
    if ended.is_empty() {
        let nobody = args.owner.as_ref().map_or("nobody".to_owned(), |owner| format!("no {owner}"));
        print(format!("{nobody} held \"{name}\""))?;
        return Ok(Exit::No);
    }
    for holder in ended.into_iter().map(HolderView::from) {
        print(format!("ended the hold of \"{name}\" by {holder}"))?;
    }
    Ok(Exit::Done)
}

fn refusal(name: &LockName) -> String {
    format!(
        "a hold that is not ours is ended only with --force: its holder is not asked, and may go \
         on until it next renews; `leasehold inspect {name}` shows the holder"
    )
}
