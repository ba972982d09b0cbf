// Package pingerchips speaks the Pingerchips chat protocol, version 1, on Phoenix
// channels: a channel is a thread, and a thread is an object of slots, whose log
// every member follows by its log_id.
//
// It projects records of a thread on changes of slots, and commands of clients on
// the desk of an edge. What the protocol has no form for (reasoning, calls of
// tools, lists, subagents) it leaves out. Agents join the same topics by a secret;
// what they may push is for an [AgentDesk], where there is one.
package pingerchips
