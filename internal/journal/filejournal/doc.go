// Package filejournal keeps the threads of one process in a folder: what a
// single Caddy needs, and nothing to install. It keeps the contract of package
// journal with the rules of journal.Ledger.
//
// # Two ways to the disk
//
// Commits go into a bbolt file, all that wait in one transaction, and are
// acknowledged after its sync. A bbolt transaction rewrites tens of kilobytes,
// so what streams goes elsewhere: appends are written to a log, all that wait
// in one write, and are acknowledged and shown after that write, without a
// sync. Nobody waits for a timer: a batch is what came while the one before
// was under way.
//
// A commit takes the streamed records of its thread that only the log has into
// its own transaction. So the bbolt file always holds a thread without a hole
// up to a position, the log only what a live run streamed since, and a log
// whose threads have all been committed to or checkpointed is removed. A
// thread does one write at a time, from decision to acknowledgement, and is
// loaded only between two: what a reader sees is always what the disk has.
//
// # What survives
//
// After kill -9 the kernel still has all that was written, so nothing that was
// shown is lost; a record that was cut off was never shown and is cut from the
// log. After a stop of the machine the log's end may be gone, and with it
// positions that somebody saw. An unclean start of another boot of the machine
// (or of any boot where the system does not tell boots apart, or with a log
// that does not check) therefore begins a new epoch, journal.PositionJump
// higher, in every thread that has a live run: only these can have lost
// something, since a run begins and ends by commits. Fewer records than that
// fit between two checkpoints, so no position is ever given twice. No numbers
// have to be reserved.
//
// A write that fails makes the journal unready and fails every call, because
// what memory holds may then be ahead of the disk. It is opened again from the
// disk, at most once a second, when somebody asks for it.
//
// # What it costs
//
// Threads are loaded when they are needed and dropped when the cache is over
// its size; a thread that nobody uses costs disk only. Deadlines of owners are
// in memory: since only one process can have the folder, whoever owned a run
// before it was opened is dead, and the run may be claimed at once.
// Segments are found until the thread is trimmed while it has no live run.
package filejournal
