//! Texts at the end of the help: examples and exit codes.

pub(super) const EXAMPLES: &str = "\
Examples:
  leasehold run backup -- ./backup.sh          one backup at a time on this machine
  leasehold run --no-wait report -- ./report   skip it if it is running already
  export LEASEHOLD_URL=redis://10.0.0.5        from here on, among all machines
  leasehold inspect backup                     who holds it?
  leasehold doctor                             is this server safe for locks?

Locks live where --url, --url-file or LEASEHOLD_URL says, else in a directory of this user:
  file:/var/lib/locks                          for the processes of this machine
  redis://[user:password@]host[:port][/db]     rediss:// by TLS, redis+unix:/path by a socket
  rediss://host/?ca=FILE&cert=FILE&key=FILE    PEM files for TLS, also of etcds://, zookeepers://
  …?prefix=shop:                               at the end of any: `a` is called `shop:a` there";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  64  wrong usage                             75  the lock was not acquired
  69  the server does not answer, or refuses  76  the lock was lost while the command ran
  73  --once: perhaps it was not recorded     77  --strict: the lock was not given back
  `run` otherwise exits as its command does, 128 + n if signal n ended it.";

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run backup -- ./backup.sh
  leasehold run --no-wait report -- ./report --daily     exit 75 if another has it
  leasehold run --wait 10s deploy -- make deploy         exit 75 after 10 s of waiting
  leasehold run -q --no-wait report -- ./report          and not a word if another has it
  leasehold run --at-least 1m tick -- ./tick             once a minute, whatever the clocks say
  leasehold run --once 2026-11-21 nightly -- ./nightly   exit 0 if that day's run is done
  leasehold run --once v42 --wait 10m schema -- ./migrate   wait for the one that migrates now
  leasehold run counter -- sh -c 'echo $(( $(cat n) + 1 )) > n'
  leasehold run account:7 account:3 -- ./transfer        both or none, in any order
  leasehold run --shared catalogue -- ./export           beside other readers, and no writer
  leasehold run --limit 3 encode -- ./encode             three at a time: LEASEHOLD_SLOT is 0 to 2
  leasehold run --limit 8 --take 2 gpu -- ./train        two of eight: LEASEHOLD_SLOT is such as 0,1

The command finds the lock's name in LEASEHOLD_NAME and the fencing token in LEASEHOLD_TOKEN. A
resource that remembers the greatest token it has seen can refuse a holder that comes too late. Of
several locks, these are the name and the token of the first name given. LEASEHOLD_TOKENS has all of
them, as a JSON object from name to token.

Several locks are acquired in the order of the bytes of their names, in whatever order they are
given. So two runs never wait for each other. There is one wait for all.

With --limit the command finds its slot in LEASEHOLD_SLOT. No other run has that slot meanwhile.
Several slots are separated by commas. Of several locks, the slots are those of the first name. All
runs must give the same number N. A run with another number waits until the holders with the former
number are gone, and is wrong usage (64) at the end of its wait.

A wait for ever ends with 69 when the server has not answered for about 10 s. When a wait ends
without the lock, the server is told, which takes 2 s at most.

A run of `--once` is recorded if the command exits with 0. A run that fails, or that a signal told
to stop, is not recorded, and may be started again. If the server does not answer, the record is
tried again while the lock is held. Exit code 73: the command exited with 0, but perhaps that was
not recorded. Then a later run of the same KEY starts it again. With --wait a run waits for the present
one, and exits with 0 when that is recorded; it starts the command if that one failed or died.

A lock that cannot be given back stays for its TTL, as a message on stderr says. With --strict the
exit code is then 77 if the command exited with 0.

If a lock is lost, the command's process group gets SIGTERM, and SIGKILL after the grace; the exit
code is then 76. With --margin it is lost that long before others get in. Signals are passed on to
the command. SIGTERM begins the grace too: what is left of the group after it is killed. When a
signal has ended the command, the lock is kept until the rest of its group has ended, for the grace
at most. A second SIGINT or SIGTERM within the grace kills at once. If leasehold itself is killed,
the system kills the command (on Linux), and others get in when the TTL is over.

Exit codes: the command's own; 128 + n if signal n ended it; 126 and 127 if it cannot be run or
found; 64 usage; 69 the server does not answer, or refuses; 73 it ran, but perhaps that was not
recorded; 75 lock not acquired; 76 lock lost while running; 77 with --strict, lock not given back.";

pub(super) const HOLD_EXAMPLES: &str = "\
Examples:
  leasehold hold backup                        until Ctrl-D
  coproc LOCK { leasehold hold backup; }       in bash: in the background, until exec {LOCK[1]}>&-
    read -r held <&\"${LOCK[0]}\" || exit 75   and wait for the lock before the work
    ./backup.sh
  leasehold hold --json-lines                  locks as lines of its input ask for them

When it has the lock, it prints a line of JSON: event (held), name, token, ttl_ms (the time that the
hold lasts without a renewal), slots, and tokens, an object from the name of each lock to its token.
It renews the lock until its input ends, as when the program that started it ends or is killed. Then
it gives the lock back, and exits with 0. Ctrl-C is left to that program. A process that inherited
the input keeps the lock: with --pid it is held until that process alone has ended (on Linux).

If the lock is lost, it prints a line with event (lost), name and reason, and exits with 76.

With --json-lines each line of the input asks for a lock, or gives one back:
  {\"acquire\":\"stock:42\",\"id\":\"1\",\"wait_ms\":2000}
  {\"release\":\"1\"}
Each event then has the id. Further events say that a lock is busy or released.

Exit codes: 0 given back; 128 + n after signal n; 64 usage; 69 the server does not answer, or
refuses; 75 lock not acquired; 76 lock lost.";

pub(super) const ACQUIRE_EXAMPLES: &str = "\
Examples:
  leasehold acquire --for 20m --wait 5m --lease deploy.lease deploy
    ./deploy.sh
    leasehold release --lease deploy.lease     perhaps in a later step, on another host

When it has the lock, it writes the file, for its user alone, and prints a line of JSON: event
(held), name, token, ttl_ms, slots and tokens, as `hold` does. Then it ends. The lock is held until
--for is over, and not renewed. A file that exists is not overwritten. Who can read it can give the
lock back.

Exit codes: 0 held; 128 + n after signal n; 64 usage; 69 the server does not answer, or refuses;
74 the file could not be written; 75 lock not acquired.";

pub(super) const ELECT_EXAMPLES: &str = "\
Examples:
  leasehold elect indexer -- ./indexer         on each host: it runs on one of them
  leasehold leader indexer                     on which?

The command finds the name in LEASEHOLD_NAME and the term in LEASEHOLD_TOKEN, which is greater
than that of every leader before. Let it send the term with each write: a leader that was paused
may still believe.

When the leadership is lost, leasehold ends the command as `run` does. One second later it is a
candidate again, and so it is after a command that failed. It ends when the command has succeeded,
after a signal, or when the command cannot be run.

With --on-change a shell command runs at each change, with the name in LEASEHOLD_NAME, the role in
LEASEHOLD_ROLE (leader or candidate), and the term that begins or ends in LEASEHOLD_TOKEN.

With --ready-file a file exists while the command leads, for a readiness probe. A systemd unit of
Type=notify is active from the first term on, and its status tells the present one.

If the server does not answer, the command is ended before another host leads: by the margin, in
which the grace fits if the TTL is twice as long or more.

Exit codes: 0 if the command succeeded; after a signal as `run`, 128 + n if signal n ended the
command or the wait; 126 and 127 if the command cannot be run or found; 64 usage; 69 the server
refuses.";

pub(super) const LEADER_EXAMPLES: &str = "\
Examples:
  leasehold leader indexer
  leasehold leader indexer --follow --json | jq --unbuffered .label

The JSON has the keys name, term, label and since_ms (counted from 1970). If nobody leads, the term
is null.";

pub(super) const INSPECT_EXAMPLES: &str = "\
Examples:
  leasehold inspect backup
  leasehold inspect backup --json | jq .held
  leasehold inspect --exit-code backup && echo it is held

The time of the grant is by the server's clock, in UTC. The JSON has the keys name, held, owner,
token, ttl_ms, since_ms (counted from 1970), label, kind and slots, which are those of the first
holder, waiters, and holders, an array of all; what is not known is null.";

pub(super) const PS_EXAMPLES: &str = "\
Examples:
  leasehold ps
  leasehold ps deploy: --json | jq -r '.locks[].holders[].label'
  leasehold ps --follow

There is a row for each holder. The JSON has the key locks, an array of what `inspect --json`
prints.";

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  leasehold watch backup
  leasehold watch backup --json | jq --unbuffered .label

Holders beside the first follow, each on a line of its own.
Changes that come and go within a fifth of a second may not be seen.";

pub(super) const RUNS_EXAMPLES: &str = "\
Examples:
  leasehold runs nightly
  leasehold runs nightly --json | jq -r '.runs[].key'
  leasehold runs nightly --forget 2026-11-21             the run of that day may start again

There is a row for each run in the order of their tokens, until its record ends by --remember. The
JSON has the key runs, an array of objects with the keys key and token.";

pub(super) const RELEASE_EXAMPLES: &str = "\
Examples:
  leasehold release --force backup
  leasehold release --force encode --owner 1a2b3c4d      and keep the other holders

With --lease it gives back the hold that `acquire` wrote to the file. If that hold is over, the exit
code is 76: others may have had the lock meanwhile. The file is removed in both cases, and kept if
the server does not answer.

With --force the holder is not asked. It learns of the loss at its next renewal, and may write until then, or for
longer if it is paused. A fence on the resource refuses its writes as soon as the next holder has
advanced that fence, and not before.";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  leasehold doctor
  leasehold doctor --strict && ./deploy        exit 1 if anything endangers locks
  leasehold doctor backup                      and check one lock for obstacles";

#[cfg(feature = "postgres")]
pub(super) const SCHEMA_EXAMPLES: &str = "\
Example:
  leasehold schema postgres | psql app

The script may be run again. If the user may create schemas, the first client creates the schema by
itself.";
