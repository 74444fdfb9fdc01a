//! `leasehold runs`: the recorded runs of a lock.

use leasehold::FencingToken;
use leasehold::admin::RecordedRun;
use leasehold::core::Occurrence;
use serde::Serialize;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::terminal::{print, print_json};
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Runs, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    if let Some(key) = &args.forget {
        let was_recorded = client.admin().forget(&args.name, key).await?;
        let done = if was_recorded { "forgot the run" } else { "no run is recorded" };
        print(format!("{done} of \"{}\" for \"{key}\"", args.name))?;
        return Ok(if was_recorded { Exit::Done } else { Exit::No });
    }
    let runs = client.admin().runs(&args.name).await?.into_iter().map(RunView::from).collect();
    let view = RunsView { runs };
    if args.json {
        print_json(&view)?;
    } else {
        for RunView { key, token } in view.runs {
            print(format!("{key}  token {token}"))?;
        }
    }
    Ok(Exit::Done)
}

/// View of the runs of a lock. The names of the fields are the keys of the JSON.
#[derive(Serialize)]
struct RunsView {
    runs: Vec<RunView>,
}

/// View of a run.
#[derive(Serialize)]
struct RunView {
    key: Occurrence,
    token: u64,
}

impl From<RecordedRun> for RunView {
    fn from(run: RecordedRun) -> Self {
        Self { key: run.occurrence, token: FencingToken::get(run.token) }
    }
}
