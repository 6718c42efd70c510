// The error codes of streams, of what receives and sinks send, and of tables.
#pragma once

#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {

inline constexpr ErrorCode kDataErrorCodes[] = {
    {"PL-E200", "a loader whose batches may be divided", kExitTrainingFailed,
     "Tables need batches with the same borders in every process. A LeasedLoader asks the ledger "
     "for them if a table was made before its first lease and if it has `resume=\"acks\"`."},
    {"PL-E201", "the tables refuse a batch", kExitTrainingFailed,
     "In most cases a part of the batch was applied before: another batch of the same data set "
     "shares ordinals with this one. Workers then have different "
     "batch sizes, or two data sets have one name."},
    {"PL-E202", "a push from before a recovery", kExitTrainingFailed,
     "A table server was lost and loaded again, and this batch was leased before that. It is "
     "leased "
     "again, so nothing is lost."},
    {"PL-E203", "this process cannot reach the tables of the job", kExitTrainingFailed,
     "Several ranks would each have tables of their own, because the job has no table servers. "
     "`paceline run --workers 2 --ps 1 --tables DIR` starts them."},
    {"PL-E204", "tables are used in a child process", kExitTrainingFailed,
     "A process that was forked from the one that made the tables shares neither its memory nor "
     "its connection. Look rows up in the training loop."},
    {"PL-E205", "tables cannot be kept there", kExitUsage,
     "`--tables` names a directory of a file system. Each table server writes its snapshots there, "
     "and loads the newest one when it starts again. It belongs to the job's user, and to one job "
     "at "
     "a time. Object stores cannot hold tables yet."},
    {"PL-E206", "hosts do not share the directory of tables", kExitTrainingFailed,
     "The table servers of a job on several hosts write into one directory, so that a server of a "
     "lost host can start on another one with its rows. On this host the directory of `--tables` "
     "does not name the job in its file `job`: it is another directory, or none. Mount the same "
     "file "
     "system under the same path on all hosts."},
    {"PL-E207", "the tables lack updates that were counted", kExitTrainingFailed,
     "A table server was lost when no worker was left that could read its samples again: its "
     "snapshot is older than the last updates. The job has exit code 1. `paceline run --resume` "
     "starts the workers anew, and they read exactly these samples again."},
    {"PL-E208", "a table server cannot go on", kExitTrainingFailed,
     "A server could not listen, or could not load or write its snapshots. It is started again a "
     "few times; then the job ends. The message says which file and why."},
    {"PL-E209", "there are no tables to show", kExitFindings,
     "`paceline tables` asks the table servers of a job that was started with `--tables`, on their "
     "own host. A table appears when a worker opens it. When the job has ended, its servers have, "
     "too."},
    {"PL-E210", "a table server does not answer", kExitTrainingFailed,
     "A worker waited ten minutes for a table server. `paceline tasks` shows the server's state "
     "and "
     "its last failure. `paceline run --resume` goes on from the newest snapshots."},
    {"PL-E211", "the table cannot be exported", kExitFindings,
     "`paceline tables export` reads the newest snapshots in a directory of --tables. The message "
     "names the tables that they have, or the file that cannot be read or written."},
    {"PL-E212", "a part of an earlier run's tables is gone", kExitTrainingFailed,
     "A new run begins with the rows in the directory of `--tables`. A snapshot there is damaged, "
     "so "
     "trained rows would be mixed with older or new ones. Restore the file, or go on with the job "
     "that wrote it by `paceline run --resume`: its ledger knows which samples the tables lack."},
    {"PL-E220", "the receiver cannot start", kExitUsage,
     "`paceline receive` needs a free address, a folder of its own that it can write, and pyarrow "
     "(`pip install 'paceline[flight]'`). The message says what is missing."},
    {"PL-E221", "the receiver and its clients do not trust each other", kExitUsage,
     "Each call needs the token of the receiver's file token.toml (mode 0600). An address that is "
     "not loopback needs TLS, because token and records would cross the network readable."},
    {"PL-E222", "the receiver does not understand a call", kExitUsage,
     "A name, a field, a column or a size of the call is not possible. docs/formats/sink.md has "
     "the calls and their limits."},
    {"PL-E223", "an epoch was committed before with other content", kExitUsage,
     "An epoch is committed once. The same rows under the same name, in any order, change nothing, "
     "so a driver may repeat them. Other rows need another epoch."},
    {"PL-E224", "a part of the epoch is not there", kExitUsage,
     "A commit lists parts that were sent before, each with its digest. A part is gone after an "
     "abort, after 7 days without a commit, or if the same attempt sent other rows. Send the "
     "parts of the epoch again, then commit."},
    {"PL-E225", "the columns of a stream have changed", kExitUsage,
     "All parts of a stream have the columns and types of its first epoch. Write other columns "
     "into a stream of another name."},
    {"PL-E226", "rows of a stream were removed", kExitUsage,
     "The receiver removes rows that were committed longer ago than `--keep`. A reader that is "
     "slower records the gap and goes on at the first row that is left."},
    {"PL-E300", "the words of `paceline tasks scale` are not usable", kExitUsage,
     "It takes the numbers that change: `worker=5`, `ps=4`, or both. Each is at least 1. A kind "
     "that "
     "is not named keeps its number."},
    {"PL-E301", "the job cannot have so many tasks", kExitUsage,
     "Only a job with table servers changes the number of its tasks, and it has a number of slots "
     "for them: 16, or twice its first tasks if that is more, or what --nproc-per-node says. "
     "TensorFlow's cluster is static, and a world is scaled by `paceline scale --nodes N`."},
    {"PL-E302", "a table server lacks partitions", kExitTrainingFailed,
     "By the journal it has partitions that its process has not received: it was interrupted while "
     "they moved. It ends and is started again, and loads them from a snapshot. Batches that the "
     "snapshot lacks are read and pushed again."},
    {"PL-E335", "an epoch does not follow the newest one of its app", kExitUsage,
     "Two processes write as one app, for example two that read one topic of Pulsar. Each record "
     "would come twice, so the second one is refused. Run one process an app. If it is started "
     "again, it goes on at the newest epoch."},
    {"PL-E336", "records of an epoch were committed before", kExitUsage,
     "Each record of the epoch has an id, and the app has committed one of them in the last 7 "
     "days, so "
     "the rows would come twice. Ask the receiver which ids it knows, leave these records out, and "
     "commit the others. The program for RocketMQ does that by itself."},
};

}  // namespace paceline::cli
