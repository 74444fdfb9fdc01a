//! A catalogue of several pages: many read it together, and one rebuilds it alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use futures_util::future::{try_join, try_join_all};
use leasehold::file::FileFence;
use leasehold::{Fence, FencingToken, LockRequest, Wait};

use crate::crew::{Crew, Failure, Host, served};
use crate::instance::{Instance, Refusal};

const PAGES: usize = 8;

/// Where the fence remembers the last rebuilding.
const FENCE: &str = "catalogue.fence";

/// How many read at once, and how often the catalogue is rebuilt meanwhile.
const READERS: usize = 12;
const REBUILDS: usize = 4;

/// How long a page takes to be made.
const WORK: Duration = Duration::from_millis(10);

/// `GET /catalogue`: all pages, each of which says by which rebuilding it was made.
pub(crate) async fn read(State(instance): State<Arc<Instance>>) -> Result<String, Refusal> {
    let request = request(&instance).shared();
    let reading = instance.locks.with(request, async |held| {
        let pages = try_join_all((0..PAGES).map(|page| {
            let page = instance.file(&page_file(page));
            tokio::fs::read_to_string(page)
        }));
        let pages = pages.await?.join(" ");
        // Reads first, and checks then: no later writer has begun.
        FileFence::open(instance.file(FENCE))?.check(held.token()).await?;
        Ok(pages)
    });
    // After the check it does not matter how the hold ended.
    reading.await?.value
}

/// `POST /catalogue`: rebuilds it page by page.
pub(crate) async fn rebuild(State(instance): State<Arc<Instance>>) -> Result<String, Refusal> {
    let rebuilding = instance.locks.with(request(&instance), async |held| {
        let (fence, token) = (FileFence::open(instance.file(FENCE))?, held.token());
        fence.advance(token).await?;
        for page in 0..PAGES {
            tokio::time::sleep(WORK).await;
            write(&instance, &fence, token, page).await?;
        }
        Ok(token.to_string())
    });
    rebuilding.await?.value
}

async fn write(
    instance: &Instance,
    fence: &FileFence,
    token: FencingToken,
    page: usize,
) -> Result<(), Refusal> {
    let page = instance.file(&page_file(page));
    Ok(fence.write(token, page, token.to_string().as_bytes()).await?)
}

fn request(instance: &Instance) -> LockRequest {
    LockRequest::new(instance.name("catalogue")).wait(Wait::AtMost(Duration::from_secs(10)))
}

fn page_file(page: usize) -> String {
    format!("catalogue-{page}")
}

/// Many read while it is rebuilt.
pub(crate) async fn act(crew: &Crew) -> Result<(), Failure> {
    served(crew.for_request(0).post("/catalogue").await?)?;
    let rebuilt = AtomicBool::new(false);
    let readers = (0..READERS).map(|i| readings(crew.for_request(i), &rebuilt));
    let (last, readings) = try_join(rebuilds(crew, &rebuilt), try_join_all(readers)).await?;
    let seen = reading(crew.for_request(0)).await?;
    let readings: usize = readings.iter().sum();
    println!(
        "catalogue: rebuilt {REBUILDS} times during {readings} readings, and none saw half of it"
    );
    match seen == last {
        true => Ok(()),
        false => Err(format!("the last was {last}, and {seen} is read").into()),
    }
}

/// Rebuilds it several times, and says which was the last.
async fn rebuilds(crew: &Crew, rebuilt: &AtomicBool) -> Result<String, Failure> {
    let mut last = String::new();
    for i in 0..REBUILDS {
        last = served(crew.for_request(i).post("/catalogue").await?)?;
    }
    rebuilt.store(true, Ordering::Relaxed);
    Ok(last)
}

/// Reads again and again until it is rebuilt, and says how often.
async fn readings(host: &Host, rebuilt: &AtomicBool) -> Result<usize, Failure> {
    let mut readings = 0;
    while !rebuilt.load(Ordering::Relaxed) {
        reading(host).await?;
        readings += 1;
    }
    Ok(readings)
}

/// By which rebuilding it was made, as all pages say.
async fn reading(host: &Host) -> Result<String, Failure> {
    let text = served(host.get("/catalogue").await?)?;
    let mut pages = text.split(' ');
    let first = pages.next().unwrap_or_default().to_owned();
    match pages.all(|page| page == first) {
        true => Ok(first),
        false => Err(format!("a torn catalogue was read: {text}").into()),
    }
}
