//! `leasehold release`: gives back what `acquire` holds, or ends another client's hold.

use std::path::Path;

use leasehold::core::Release;
use leasehold::{LockError, LockName};

use crate::exit::{Exit, Failure};
use crate::lock_view::HolderView;
use crate::terminal::print;
use crate::url::StoreUrl;
use crate::{args, lease_file};

pub(crate) async fn run(args: &args::Release, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    if let Some(file) = &args.lease {
        return give_back(file, store).await;
    }
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

/// Gives back the hold whose lease is in this file. The file stays if the server did not answer the release.
async fn give_back(file: &Path, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let lease = lease_file::read(file, &store.shown())?;
    let name = lease.name().clone();
    let client = store.connect().await?;
    let released = async { client.attach(lease).await?.release_confirmed().await }.await;
    let is_over = matches!(released, Ok(_) | Err(LockError::Lost { .. }));
    if is_over {
        lease_file::remove(file)?;
    }
    match released? {
        Release::Released => Ok(Exit::Done),
        Release::NotHeld => {
            Err(Failure::new(Exit::Lost, format!("lock \"{name}\" was over before")))
        }
    }
}

fn refusal(name: &LockName) -> String {
    format!(
        "a hold that is not ours is ended only with --force: its holder is not asked, and may go \
         on until it next renews; `leasehold inspect {name}` shows the holder"
    )
}
