// Package smooth speaks the smooth-operator protocol: JSON frames on one
// WebSocket, with turns, write approvals, forms and choices. A session is a note
// on the shelf and a turn is a run in the journal, so both outlive the
// connection and the edge that they began on; a client that comes back is shown
// its open card again and then the live frames.
//
// It owes its clients one terminal frame per turn and nothing of the turn after
// it, and has the connection's turn slot free before that frame leaves. What
// agents do it leaves to the conductor.
package smooth
