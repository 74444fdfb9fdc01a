//! `leasehold watch`: a line for each change of a lock.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::follow::{POLL_INTERVAL, stamped, tell_outage, while_read};
use crate::lock_view::LockView;
use crate::terminal::{print, print_json};
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Watch, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    let mut watch =
        client.admin().watch(&args.name).poll_every(POLL_INTERVAL).on_outage(tell_outage);
    loop {
        let view = LockView::from(while_read(watch.next()).await?);
        match args.json {
            true => print_json(&view)?,
            false => print(stamped(view))?,
        }
    }
}
