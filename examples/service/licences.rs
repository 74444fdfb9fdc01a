//! Five licences for all instances: each render works under one of them, and its slot has a fence.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::StatusCode;
use futures_util::future::{join, try_join, try_join_all};
use leasehold::file::FileFence;
use leasehold::{Fence, LockRequest, Wait};
use tokio::time::{Instant, sleep};

use crate::crew::{Crew, Failure, Host, served};
use crate::instance::{Instance, Refusal, TTL};
use crate::leader;

const LICENCES: u16 = 5;

/// How many pictures are wanted at once.
const PICTURES: usize = 15;

/// How long a picture takes.
const WORK: Duration = Duration::from_millis(500);

/// How long a picture is waited for.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// `POST /render`
pub(crate) async fn render(State(instance): State<Arc<Instance>>) -> Result<String, Refusal> {
    let request = LockRequest::new(instance.name("licences")).permits(1, LICENCES);
    let request = request.ttl(TTL).wait(Wait::AtMost(MAX_WAIT));
    let guard = instance.locks.acquire(request).await?;
    let (began, token) = (now(), guard.token());
    let slot = guard.slots().first().copied().unwrap_or_default();
    let fence = FileFence::open(instance.file(&fence_of(slot)))?;
    fence.advance(token).await?;
    sleep(WORK).await;
    // It does not look whether it still holds the licence, which it could lose right after looking.
    let picture = instance.file(&format!("licence-{slot}.picture"));
    fence.write(token, picture, instance.label().as_bytes()).await?;
    let rendered = format!("{slot} {began} {}", now());
    if let Err(lost) = guard.release().await {
        // The picture stands all the same: the fence let it pass.
        eprintln!("{lost}");
    }
    Ok(rendered)
}

/// The tokens of one slot say nothing of another.
fn fence_of(slot: u16) -> String {
    format!("licence-{slot}.fence")
}

/// Microseconds by the machine's clock, which all instances share.
fn now() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |span| span.as_micros())
}

/// What the instances say of a picture: under which slot it was made, and when.
#[derive(Clone, Copy)]
struct Picture {
    slot: u16,
    began: u128,
    ended: u128,
}

pub(crate) async fn act(crew: &Crew, home: &Path) -> Result<(), Failure> {
    let pictures = try_join_all((0..PICTURES).map(|i| picture(crew.for_request(i)))).await?;
    let at_once = pictures.iter().map(|one| at_work(&pictures, one.began).count()).max();
    for one in &pictures {
        if at_work(&pictures, one.began).filter(|other| other.slot == one.slot).count() > 1 {
            return Err(format!("slot {} was given to two at once", one.slot).into());
        }
    }
    let at_once = at_once.unwrap_or_default();
    println!(
        "licences:  {PICTURES} pictures, {at_once} at once at the most, each under its own licence;"
    );
    if at_once > usize::from(LICENCES) {
        return Err("there are only five licences".into());
    }
    comes_late(crew, home).await
}

fn at_work(pictures: &[Picture], at: u128) -> impl Iterator<Item = &Picture> {
    pictures.iter().filter(move |one| (one.began..one.ended).contains(&at))
}

async fn picture(host: &Host) -> Result<Picture, Failure> {
    let text = served(host.post("/render").await?)?;
    match *text.split(' ').collect::<Vec<_>>() {
        [slot, began, ended] => {
            Ok(Picture { slot: slot.parse()?, began: began.parse()?, ended: ended.parse()? })
        }
        _ => Err(format!("this is no picture: {text}").into()),
    }
}

/// Stops an instance amid a picture until another has its licence, the lowest that was free.
async fn comes_late(crew: &Crew, home: &Path) -> Result<(), Failure> {
    let leader = leader::leader(crew).await?.map(|(label, _)| label);
    let (late, others): (Vec<_>, Vec<_>) =
        crew.instances.iter().partition(|host| leader.as_ref() != Some(&host.label));
    let (late, others) = (late[0], [&late[1..], &others].concat());
    let fence = FileFence::open(home.join(fence_of(0)))?;
    let before = fence.seen().await?;
    let meanwhile = async {
        let until = Instant::now() + 5 * TTL;
        // Its fence has seen the late one: now it works.
        while fence.seen().await? == before && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
        late.stop()?;
        let beside = until_taken(&others, until).await;
        late.let_go_on()?;
        beside
    };
    let (answer, meanwhile) = join(late.post("/render"), meanwhile).await;
    let ((status, text), beside) = (answer?, meanwhile?);
    println!(
        "           {} was stopped until another had licence 0, and then was told {status};",
        late.label
    );
    println!("           {beside} pictures were made under other licences meanwhile");
    match status {
        StatusCode::CONFLICT if beside > 0 => Ok(()),
        _ => Err(format!("the late picture: {status}, {text}").into()),
    }
}

/// Makes pictures, two at a time, until one is made under licence 0; says how many were made under others.
async fn until_taken(hosts: &[&Host], until: Instant) -> Result<usize, Failure> {
    let mut beside = 0;
    while Instant::now() < until {
        let pair = try_join(picture(hosts[0]), picture(hosts[1])).await?;
        let slots = [pair.0.slot, pair.1.slot];
        beside += slots.iter().filter(|slot| **slot != 0).count();
        if slots.contains(&0) {
            return Ok(beside);
        }
    }
    Err("the licence of one that was stopped did not become free".into())
}
