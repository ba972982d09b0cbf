package chat

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// RunStatus says where a run stands. A terminal status is final.
type RunStatus string

// The states of a run: pending → active ⇄ suspended → one of the last three.
const (
	RunPending   RunStatus = "pending"
	RunActive    RunStatus = "active"
	RunSuspended RunStatus = "suspended"
	RunComplete  RunStatus = "complete"
	RunCancelled RunStatus = "cancelled"
	RunError     RunStatus = "error"
)

// Cause says why a run was ended from outside.
type Cause string

// The causes of a run.stop and of a run.end.
const (
	CauseNone     Cause = ""
	CauseUser     Cause = "user"
	CauseWithdraw Cause = "withdraw"
	CauseTimeout  Cause = "timeout"
	CauseAgent    Cause = "agent"
	CauseEdgeLost Cause = "edge_lost"
	CauseLogLost  Cause = "log_lost"
	CauseShutdown Cause = "shutdown"
	CauseDeleted  Cause = "deleted"
)

// The codes that a failed run may carry beside its agent's own.
const (
	CodeAgentError       = "AGENT_ERROR"
	CodeAgentTimeout     = "AGENT_TIMEOUT"
	CodeAgentUnavailable = "AGENT_UNAVAILABLE"
	CodeAgentTruncated   = "UPSTREAM_TRUNCATED"
	CodeEdgeLost         = "EDGE_LOST"
	CodeLogLost          = "LOG_LOST"
	CodeRunTimeout       = "RUN_TIMEOUT"
	CodeShutdown         = "GATEWAY_RESTART"
	CodeAnswerTooLong    = "ANSWER_TOO_LONG"
)

// Origin says who began a run and through which dialect.
type Origin struct {
	Dialect string  `json:"dialect,omitempty"`
	By      Subject `json:"by,omitzero"`
	// Session and Request are the dialect's own names of what it began the run
	// for, so that another connection can take it up.
	Session string `json:"session,omitempty"`
	Request string `json:"request,omitempty"`
	// Park is how long the run's questions wait for an answer, in milliseconds:
	// 0 as long as the realm says, less for ever.
	Park int64 `json:"park,omitzero"`
	// Finished leaves answers that were stopped or failed out of what the agent is
	// given of the conversation, as the dialect's own history does.
	Finished bool `json:"finished,omitzero"`
	// Standing offers the tools that the run began with to each of its segments,
	// whoever answers, unless an answer declares others.
	Standing bool `json:"standing,omitzero"`
	// Site is where the run was begun, and Supports what the client that shows it can
	// show, in the dialect's words: by them questions are settled that it cannot be
	// asked.
	Site     string   `json:"site,omitempty"`
	Supports []string `json:"supports,omitempty"`
	// Props is an object that the agent is given as it is.
	Props jsontext.Value `json:"props,omitzero"`
}

// ToolKind says whether a client tool waits for its client.
type ToolKind string

// The kinds of client tools (PIL-066).
const (
	ToolBlocking ToolKind = "blocking"
	ToolOneWay   ToolKind = "one-way"
)

// ClientTool is a tool that a window declared for one segment (PIL-062). It
// lives in the run until that segment ends and is stored nowhere else (PIL-070);
// one of a dialect's own may stand for the whole run.
type ClientTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Arguments   jsontext.Value `json:"arguments"`
	Kind        ToolKind       `json:"kind"`
	Result      jsontext.Value `json:"result,omitzero"`
	// Otherwise is the result of a call that nobody answers in time.
	Otherwise jsontext.Value `json:"otherwise,omitzero"`
}

// Run is one piece of agent work. A state holds the runs that have not ended.
type Run struct {
	ID      string    `json:"id"`
	Status  RunStatus `json:"status"`
	Agent   string    `json:"agent"`
	Origin  Origin    `json:"origin,omitzero"`
	Message string    `json:"message"`
	// Opening is the user's message, kept until the run ends so that a window
	// that joins in the middle is shown the question (PIL-113).
	Opening *Message `json:"opening,omitempty"`
	// Answer is the id that the run's message will have.
	Answer string `json:"answer"`
	Regen  string `json:"regen,omitempty"`
	// Upstream is the thread id that the agent knows this branch by.
	Upstream string `json:"upstream,omitempty"`
	// Segments are the ids that Pilotoo and AG-UI show; the last is the
	// current one.
	Segments []string `json:"segments"`
	// Hidden says that its message is not in the default view any more.
	Hidden bool `json:"hidden,omitzero"`
	// Drafted is how many of Parts belong to finished segments.
	Drafted    int          `json:"drafted,omitzero"`
	Parts      []*Part      `json:"parts,omitempty"`
	Interrupts []*Interrupt `json:"interrupts,omitempty"`
	Subagents  []Subagent   `json:"subagents,omitempty"`
	Tools      []ClientTool `json:"tools,omitempty"`
	// Withdrawn are questions of an earlier run that this one's message took
	// back: the agent is told so with its next input (PIL-047).
	Withdrawn []*Interrupt `json:"withdrawn,omitempty"`
	// State is the agent's own state, given back to it on resume.
	State jsontext.Value `json:"state,omitzero"`
	// Stop is set once the run is sealed: it will end with this cause.
	Stop *Stop `json:"stop,omitempty"`
	// Detach lists the subagents' calls that were asked into the background
	// and have not gone yet.
	Detach []string `json:"detach,omitempty"`
	// Streamed says that the current segment's agent has said something: such
	// a segment is never started again.
	Streamed  bool           `json:"streamed,omitzero"`
	Started   int64          `json:"started,omitzero"`
	Suspended int64          `json:"suspended,omitzero"`
	Usage     jsontext.Value `json:"usage,omitzero"`
	// LastSeq is the number of the current segment's last envelope.
	LastSeq uint64 `json:"lastSeq,omitzero"`
	// SegmentPos is the position of the record that opened the current segment.
	SegmentPos uint64 `json:"segmentPos,omitzero"`
	// Log is the number of the record that accepted the run. Shown are its text
	// parts, and Asked is its question, as of the run's newest record with a log
	// number. Shown shares memory with Parts.
	Log   uint64 `json:"log,omitzero"`
	Shown []Text `json:"shown,omitempty"`
	Asked string `json:"asked,omitempty"`
	Trace string `json:"trace,omitempty"`
	// Holder is the connection that took the run's showing over last, by a name
	// of its dialect's.
	Holder string `json:"holder,omitempty"`
	// Remarks are what the agent said of its answer as a whole, in any segment.
	Remarks []Remark `json:"remarks,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// Segment is the id of the current segment.
func (r *Run) Segment() string {
	if len(r.Segments) == 0 {
		return ""
	}
	return r.Segments[len(r.Segments)-1]
}

// Part finds a part by its id, or returns nil.
func (r *Run) Part(id string) *Part {
	for i := len(r.Parts) - 1; i >= 0; i-- {
		if r.Parts[i].ID == id {
			return r.Parts[i]
		}
	}
	return nil
}

// Open returns the earliest interrupt that nobody has answered, or nil.
func (r *Run) Open() *Interrupt {
	for _, i := range r.Interrupts {
		if i.Status == InterruptOpen {
			return i
		}
	}
	return nil
}

// Stop is why a run was sealed.
type Stop struct {
	Cause   Cause   `json:"cause"`
	By      Subject `json:"by,omitzero"`
	Code    string  `json:"code,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Subagent is a subagent's call within a run.
type Subagent struct {
	ID      string `json:"id"`
	Call    string `json:"call,omitempty"`
	Name    string `json:"name,omitempty"`
	TaskID  string `json:"taskId,omitempty"`
	Child   string `json:"child,omitempty"`
	Running bool   `json:"running,omitzero"`
}

// InterruptKind says what a paused run waits for.
type InterruptKind string

// The kinds of interrupts.
const (
	InterruptApproval   InterruptKind = "approval"
	InterruptClientTool InterruptKind = "client_tool"
	InterruptQuestion   InterruptKind = "question"
	InterruptOTP        InterruptKind = "otp"
)

// InterruptStatus says whether an interrupt still waits.
type InterruptStatus string

// The states of an interrupt; all but the first are final.
const (
	InterruptOpen      InterruptStatus = "open"
	InterruptAnswered  InterruptStatus = "answered"
	InterruptDeclined  InterruptStatus = "declined"
	InterruptWithdrawn InterruptStatus = "withdrawn"
	InterruptExpired   InterruptStatus = "expired"
)

// Interrupt is a question that a paused run waits on.
type Interrupt struct {
	ID   string        `json:"id"`
	Kind InterruptKind `json:"kind"`
	// Upstream is the agent's own id for the question.
	Upstream string `json:"upstream,omitempty"`
	// Alias is what an agent that dials in calls the tool call that it asks
	// about: windows of its own protocol name the question so.
	Alias string `json:"alias,omitempty"`
	Call  string `json:"call,omitempty"`
	Tool  string `json:"tool,omitempty"`
	// Gate says that the gateway asks, not the agent, and who carries the call out
	// once it is approved; "" is a question of the agent's own.
	Gate Gate `json:"gate,omitempty"`
	// Payload is what a window is shown (PIL-117), Schema what an answer must
	// match, where the agent said so.
	Payload jsontext.Value `json:"payload,omitzero"`
	Schema  jsontext.Value `json:"schema,omitzero"`
	// Deadline is in Unix milliseconds; 0 is none.
	Deadline int64 `json:"deadline,omitzero"`
	// Otherwise is the answer if nobody gives one in time.
	Otherwise jsontext.Value `json:"otherwise,omitzero"`
	// Unasked is how the question is settled at once, with Otherwise, because who
	// would be asked cannot be, or need not; "" is a question that waits.
	Unasked InterruptStatus `json:"unasked,omitempty"`
	Status  InterruptStatus `json:"status"`
	Answer  jsontext.Value  `json:"answer,omitzero"`
	By      Subject         `json:"by,omitzero"`
	// Settled is when it was answered or given up, in Unix milliseconds.
	Settled int64 `json:"settled,omitzero"`
	Segment int   `json:"segment,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// Gate is who carries out a call that waits for the gateway's own approval.
type Gate string

// The agent carries its own tools out, a client those that it declared.
const (
	GateAgent  Gate = "agent"
	GateClient Gate = "client"
)

// Approved says that the question was answered with yes: true, or an object
// with a true approved.
func (i *Interrupt) Approved() bool {
	return i.Status == InterruptAnswered && Yes(i.Answer)
}

// Yes says whether a value approves.
func Yes(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return v.Kind() == 't'
	}
	var o struct {
		Approved jsontext.Value `json:"approved"`
	}
	return json.Unmarshal(v, &o) == nil && o.Approved.Kind() == 't'
}

// Todo is an entry of an agent's list (PIL-123).
type Todo struct {
	ID      string `json:"id,omitempty"`
	Content string `json:"content"`
	Status  string `json:"status"`
}

// Task is a subagent's work in the background (PIL-108).
type Task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Title   string `json:"title,omitempty"`
	Parent  string `json:"parentThreadId"`
	Child   string `json:"childThreadId"`
	Call    string `json:"toolCallId,omitempty"`
	Created int64  `json:"createdAt"`
	Updated int64  `json:"updatedAt"`
}
