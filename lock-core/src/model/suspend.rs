//! The suspend of the machine, which stops Tokio's timers.

pub(super) use self::platform::{Resumes, slept};

#[cfg(target_os = "linux")]
mod platform {
    use std::fs::File;
    use std::io::{self, ErrorKind, Read};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
        clock_gettime, timerfd_create, timerfd_settime,
    };
    use tokio::sync::watch;
    use tokio::time::sleep;

    const NANOS_PER_SECOND: u64 = 1_000_000_000;

    /// The step of a sleep if the kernel reports no resume.
    const STEP: Duration = Duration::from_millis(50);

    /// Reads the time in suspend since the machine started. It never shrinks.
    pub(crate) fn slept() -> Duration {
        static LONGEST: AtomicU64 = AtomicU64::new(0);
        // The order matters: a pause between the readings makes the difference smaller, never larger.
        let boot = nanos(ClockId::Boottime);
        let slept = boot.saturating_sub(nanos(ClockId::Monotonic));
        let longest = LONGEST.load(Ordering::Relaxed);
        if slept > longest {
            LONGEST.fetch_max(slept, Ordering::Relaxed);
        }
        Duration::from_nanos(slept.max(longest))
    }

    fn nanos(clock: ClockId) -> u64 {
        let time = clock_gettime(clock);
        time.tv_sec.unsigned_abs() * NANOS_PER_SECOND + time.tv_nsec as u64
    }

    /// Tells a sleeper that the machine has resumed.
    pub(crate) struct Resumes(Option<watch::Receiver<()>>);

    impl Resumes {
        /// Listens from now on.
        pub(crate) fn listen() -> Self {
            static RESUMED: LazyLock<Option<watch::Receiver<()>>> =
                LazyLock::new(|| watch_for_resume().ok());
            let mut resumed = RESUMED.clone();
            if let Some(resumed) = &mut resumed {
                drop(resumed.borrow_and_update());
            }
            Self(resumed)
        }

        /// Sleeps for `span`, or less if the machine has resumed since `listen`.
        pub(crate) async fn sleep(&mut self, span: Duration) {
            let Some(resumed) = &mut self.0 else { return sleep(span.min(STEP)).await };
            tokio::select! {
                () = sleep(span) => {}
                seen = resumed.changed() => {
                    if seen.is_err() {
                        self.0 = None;
                    }
                }
            }
        }
    }

    /// Starts the thread that waits for a resume, one in a process. It needs no runtime. It wakes only for a step of
    /// the wall clock, and a resume is such a step.
    fn watch_for_resume() -> io::Result<watch::Receiver<()>> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let never = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: never };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &once)?;
        let (resumed, listener) = watch::channel(());
        let wait = move || wait_for_resume(timer.into(), &resumed);
        thread::Builder::new().name("leasehold-resume".to_owned()).spawn(wait)?;
        Ok(listener)
    }

    /// Waits for resumes until the kernel's timer fails.
    fn wait_for_resume(mut timer: File, resumed: &watch::Sender<()>) {
        loop {
            match timer.read(&mut [0; 8]) {
                Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {
                    resumed.send_replace(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// On other systems the clock of the timers is the only one.
#[cfg(not(target_os = "linux"))]
mod platform {
    use std::time::Duration;

    use tokio::time::sleep;

    pub(crate) fn slept() -> Duration {
        Duration::ZERO
    }

    pub(crate) struct Resumes;

    impl Resumes {
        pub(crate) fn listen() -> Self {
            Self
        }

        pub(crate) async fn sleep(&mut self, span: Duration) {
            sleep(span).await;
        }
    }
}
