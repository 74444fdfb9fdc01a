//! The losses that the service reports in its log.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::order::Order;

/// The orders during which the log reported a lost hold.
static LOGGED: Mutex<BTreeSet<Order>> = Mutex::new(BTreeSet::new());

/// Notes the service's log from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        subscriber::set_global_default(registry().with(Losses)).expect("nobody else listens");
    });
}

/// Returns true if the service logged that the hold of this order was lost.
pub(crate) fn is_logged(order: Order) -> bool {
    LOGGED.lock().expect("no panic").contains(&order)
}

struct Losses;

impl<S: Subscriber> Layer<S> for Losses {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().ends_with("::shop") {
            return;
        }
        let mut loss = TellsLoss(false);
        event.record(&mut loss);
        if let (TellsLoss(true), Some(order)) = (loss, Order::current()) {
            LOGGED.lock().expect("no panic").insert(order);
        }
    }
}

/// Set if an event has the field `lost`.
struct TellsLoss(bool);

impl Visit for TellsLoss {
    fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
        self.0 |= field.name() == "lost";
    }
}
