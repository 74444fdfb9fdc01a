//! The mutants of `lock-cli`.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a command is asked to end, and no more",
        file: "lock-cli/src/run.rs",
        from: "self.group.send(Signal::KILL);",
        to: "",
        test: "-p lock-cli --test shell file::c08_lost_data_ends_a_command_that_will_not_end",
    },
    Mutant {
        name: "the grace left out",
        file: "lock-cli/src/run.rs",
        from: "pin!(sleep(self.grace))",
        to: "pin!(sleep(self.grace * 0))",
        test: "-p lock-cli --test shell file::c08_lost_data_ends_a_command_that_will_not_end",
    },
    Mutant {
        name: "a command outlives a killed leasehold",
        file: "lock-cli/src/run/trampoline.rs",
        from: "set_parent_process_death_signal(Some(Signal::KILL))?;",
        to: "let _ = (set_parent_process_death_signal, Signal::KILL);",
        test: "-p lock-cli --test shell file::the_command_ends_with_a_killed_leasehold",
    },
    Mutant {
        name: "a loss seen at the release is kept quiet",
        file: "lock-cli/src/run/giving_back.rs",
        from: "_ => Err(Failure::lost(&name, \"it was over when the command ended\")),",
        to: "_ => Ok(None),",
        test: "-p lock-cli --test shell file::c08_a_loss_is_told_though_the_command_ended_first",
    },
    Mutant {
        name: "an interrupted wait stays in the queue",
        file: "lock-cli/src/run.rs",
        from: "&& shut_down(&client).await {",
        to: "&& { drop(shut_down(&client)); false } {",
        test: "-p lock-cli --test shell redis::c19_who_is_interrupted_while_waiting_leaves_the_queue",
    },
    Mutant {
        name: "nohup undone",
        file: "lock-cli/src/run/signals.rs",
        from: "let ignored = ignored();",
        to: "let ignored = ignored() * 0;",
        test: "-p lock-cli --test shell file::what_was_ignored_stays_ignored",
    },
    Mutant {
        name: "released while what a signal ended cleans up",
        file: "lock-cli/src/run.rs",
        from: "interrupted && self.rest_ends(false).await",
        to: "interrupted && false",
        test: "-p lock-cli --test shell file::c08_the_lock_is_kept_while_what_a_signal_ended_cleans_up",
    },
    Mutant {
        name: "people read a name as it was given",
        file: "lock-cli/src/ps.rs",
        from: "view.name.to_string()",
        to: "view.name.as_str().to_owned()",
        test: "-p lock-cli --test shell file::what_people_read_cannot_be_forged",
    },
    Mutant {
        name: "the parser repeats a name as it was typed",
        file: "lock-cli/src/exit.rs",
        from: "Readable::again(&text).keeping(&LINES_AND_COLOURS).to_string()",
        to: "text.clone()",
        test: "-p lock-cli --test shell file::what_people_read_cannot_be_forged",
    },
    Mutant {
        name: "a command is told the slot of the hold above it",
        file: "lock-cli/src/run/group.rs",
        from: ".env_remove(SLOT)",
        to: "",
        test: "-p lock-cli --test shell file::c36_a_command_knows_the_slots_of_its_own_hold_alone",
    },
    Mutant {
        name: "a reader asks for the lock alone",
        file: "lock-cli/src/run.rs",
        from: "(true, _) => request.shared(),",
        to: "(true, _) => request,",
        test: "-p lock-cli --test shell file::c34_a_writer_waits_for_readers_and_others_wait_behind_it",
    },
    Mutant {
        name: "the hold of one owner is told, and those of all are ended",
        file: "lock-cli/src/release.rs",
        from: "client.evict_owner(&name, owner).await?.into_iter().collect()",
        to: "client.evict(&name).await?.into_iter().filter(|one| one.owner.as_ref() == Some(owner)).collect()",
        test: "-p lock-cli --test shell file::c36_each_of_three_has_a_slot_and_a_fourth_has_none",
    },
    Mutant {
        name: "a command that was told to stop is recorded",
        file: "lock-cli/src/run.rs",
        from: "(Some((key, _)), _) if self.asked_to_end => Err(once::told_to_stop(terms.names, key)),",
        to: "",
        test: "-p lock-cli --test shell file::c42_a_run_that_was_told_to_stop_is_not_recorded",
    },
    Mutant {
        name: "a lock that stays is kept quiet",
        file: "lock-cli/src/run.rs",
        from: "unreleased.iter_mut().for_each(Unreleased::tell);",
        to: "",
        test: "-p lock-cli --test shell unreleased::c47_a_release_without_an_answer_is_told_in_the_end",
    },
];
