package pingerchips

// joinCommand is the payload of phx_join (PIN-045, PIN-046).
type joinCommand struct {
	Auth, ClientID  string
	Secret, AgentID string
	// After is the last log_id that the client has, if Resumes. AfterBad says that
	// what stood there is none, which is told only to who may join (PIN-066).
	After    uint64
	Resumes  bool
	AfterBad bool
	// View is what the client had chosen of the tree before (PIN-243). ViewBad says
	// that what stood there is no such thing, and is told like AfterBad.
	View    choices
	ViewBad bool
}

// parseJoin reads a join. A member of the wrong type counts as a wrong one: a
// token that is no string is an invalid token.
func parseJoin(b []byte) (c joinCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if o.given("auth") {
		if c.Auth, err = o.text("auth"); err != nil || c.Auth == "" {
			c.Auth, err = "invalid", nil
		}
	}
	if o.given("secret") {
		if c.Secret, err = o.text("secret"); err != nil || c.Secret == "" {
			return c, invalidSecret
		}
	}
	c.AgentID, c.ClientID = o.name("agent_id"), o.name("client_id")
	if o.given("after_log_id") {
		n, err := o.whole("after_log_id")
		c.After, c.Resumes, c.AfterBad = uint64(max(n, 0)), true, err != nil || n < 0
	}
	if o.given("selections") {
		c.View, err = o.choices("selections")
		c.ViewBad = err != nil
	}
	return c, nil
}

// name reads who somebody says that he is. What is no name is refused where it is
// used, behind the credential.
func (o object) name(member string) string {
	if !o.given(member) {
		return ""
	}
	s, err := o.text(member)
	if err != nil || s == "" {
		return "\x00"
	}
	return s
}

// sendCommand is send (PIN-121) and, with Fork, edit (PIN-161). Placed says that
// a parent was given, also null.
type sendCommand struct {
	Message, Run, Text string
	Placed             bool
	Parent             string
	Fork               string
}

func parseSend(b []byte) (c sendCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Message, err = o.id("messageId"); err != nil {
		return c, err
	}
	if c.Run, err = o.id("runId"); err != nil {
		return c, err
	}
	_, c.Placed = o["parentId"]
	if c.Parent, err = o.optionalID("parentId"); err != nil {
		return c, err
	}
	c.Text, err = o.message("text")
	return c, err
}

func parseEdit(b []byte) (c sendCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Fork, err = o.id("messageId"); err != nil {
		return c, err
	}
	if c.Message, err = o.id("newMessageId"); err != nil {
		return c, err
	}
	if c.Run, err = o.id("runId"); err != nil {
		return c, err
	}
	c.Text, err = o.message("text")
	return c, err
}

// message reads what a user says (PIN-122).
func (o object) message(name string) (string, error) {
	s, err := o.text(name)
	if err == nil && (blank(s) || units(s) > MaxText) {
		err = invalidPayload
	}
	return s, err
}

// regenerateCommand is regenerate (PIN-151).
type regenerateCommand struct {
	Message, Run string
	Placed       bool
	Parent       string
}

func parseRegenerate(b []byte) (c regenerateCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Message, err = o.id("messageId"); err != nil {
		return c, err
	}
	if c.Run, err = o.id("runId"); err != nil {
		return c, err
	}
	_, c.Placed = o["parentId"]
	c.Parent, err = o.optionalID("parentId")
	return c, err
}

func parseCancel(b []byte) (run string, err error) {
	o, err := readObject(b)
	if err != nil {
		return "", err
	}
	return o.id("runId")
}

// approvalCommand is tool_approval (PIN-170).
type approvalCommand struct {
	Run, Call string
	Approved  bool
}

func parseApproval(b []byte) (c approvalCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Run, err = o.id("runId"); err != nil {
		return c, err
	}
	if c.Call, err = o.id("toolCallId"); err != nil {
		return c, err
	}
	c.Approved, err = o.truth("approved")
	return c, err
}

// pageCommand is load_older, view:get and tree:get: the newest Limit before a
// message, or before nothing the newest of all.
type pageCommand struct {
	Before string
	Limit  int
}

func parsePage(b []byte, def, most int64) (c pageCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Before, err = o.optionalID("beforeMessageId"); err != nil {
		return c, err
	}
	c.Limit, err = o.limit("limit", def, most)
	return c, err
}

// selectCommand is branch:select (PIN-235): Selected or Index names the sibling,
// neither of them clears the choice.
type selectCommand struct {
	Message  string
	Selected string
	Indexed  bool
	Index    int64
}

func parseSelect(b []byte) (c selectCommand, err error) {
	o, err := readObject(b)
	if err != nil {
		return c, err
	}
	if c.Message, err = o.id("messageId"); err != nil {
		return c, err
	}
	_, selected := o["selectedId"]
	_, c.Indexed = o["index"]
	if selected == c.Indexed {
		return c, invalidPayload
	}
	if c.Indexed {
		c.Index, err = o.whole("index")
		return c, err
	}
	c.Selected, err = o.optionalID("selectedId")
	return c, err
}

// parseMessage reads the message that tree:siblings and tree:node are about.
func parseMessage(b []byte) (string, error) {
	o, err := readObject(b)
	if err != nil {
		return "", err
	}
	return o.id("messageId")
}
