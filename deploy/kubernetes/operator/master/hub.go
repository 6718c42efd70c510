package master

import (
	"sync"
	"time"

	"paceline.dev/operator/decide"
)

// Hub has the streams of all jobs, by a job's key.
type Hub struct {
	changed func(key string)
	now     func() time.Time
	after   func(time.Duration, func()) // calls a function later

	mutex   sync.Mutex
	clients map[string]*client
}

// NewHub makes a hub that calls `changed` whenever a master was heard or its stream broke.
func NewHub(changed func(key string), now func() time.Time) *Hub {
	after := func(pause time.Duration, do func()) { time.AfterFunc(pause, do) }
	return &Hub{changed: changed, now: now, after: after, clients: map[string]*client{}}
}

// Dial makes sure that there is a stream to the target. A stream to another target is closed first.
func (h *Hub) Dial(key string, target Target) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if old := h.clients[key]; old != nil {
		if old.target.Term == target.Term && old.target.Address == target.Address && old.cancel != nil {
			return
		}
		old.hangUp()
	}
	h.clients[key] = newClient(target, func() { h.changed(key) }, h.now)
}

// HangUp closes the job's stream. What was heard stays known: how long the master has been silent
// matters after its end too.
func (h *Hub) HangUp(key string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if old := h.clients[key]; old != nil {
		old.hangUp()
	}
}

// Tell replaces the facts that the master is to know, and the nodes that will be taken away.
func (h *Hub) Tell(key string, facts []decide.Fact, notices []decide.NodeNotice) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if c := h.clients[key]; c != nil {
		c.tell(facts, notices)
	}
}

// Want tells the master how many nodes the job is to have; 0: nothing is to be told any more.
func (h *Hub) Want(key string, nodes uint32) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if c := h.clients[key]; c != nil {
		c.want(nodes)
	}
}

// Notice tells the job's master that all of the job is about to end.
func (h *Hub) Notice(key, why string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if c := h.clients[key]; c != nil {
		c.give(why)
	}
}

// KeptEnd tells the job's master that the end of the job is stored.
func (h *Hub) KeptEnd(key string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if c := h.clients[key]; c != nil {
		c.keptEnd()
	}
}

// Conclude drops a job that was deleted. Its master is told so, and keeps its stream while its pods
// may still save.
func (h *Hub) Conclude(key, why string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	old := h.clients[key]
	if old == nil {
		return
	}
	delete(h.clients, key)
	old.give(why)
	h.after(old.target.Grace, func() {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		old.hangUp()
	})
}

// Stream returns the state of the stream to the job's master, and its last messages.
func (h *Hub) Stream(key string) decide.Stream {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if c := h.clients[key]; c != nil {
		return c.snapshot()
	}
	return decide.Stream{}
}

// hangUp is called under the hub's mutex.
func (c *client) hangUp() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	c.cancel = nil
	c.mutex.Lock()
	c.stream.Connected = false
	c.mutex.Unlock()
}
