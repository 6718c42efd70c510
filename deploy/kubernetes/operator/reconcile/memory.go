package reconcile

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
	"paceline.dev/operator/pki"
)

// memory is what this process knows of one job (decide.Memory), and what it needs to dial.
type memory struct {
	mutex sync.Mutex // the watch writes Gone while the job's worker runs
	uid   types.UID
	term  int64 // of the job when it was looked at last
	known decide.Memory

	token     string
	authority pki.Authority
	// The earliest time of the next attempt to set spec.nodes.target, after one was refused.
	targetNext time.Time
	// The sentence that the job got about a field that cannot be read; "": it can be read.
	unreadable string
}

// memories has one memory for each job. A new job with the name of an old one gets a new memory.
type memories struct {
	mutex sync.Mutex
	jobs  map[types.NamespacedName]*memory
}

func (m *memories) of(key types.NamespacedName, uid types.UID, now time.Time) *memory {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if found := m.jobs[key]; found != nil && found.uid == uid {
		return found
	}
	made := &memory{uid: uid, known: decide.Memory{
		Since: now, Made: map[string]time.Time{}, Gone: map[string]string{},
		PodRefused: map[string]decide.Refusal{},
	}}
	m.jobs[key] = made
	return made
}

func (m *memories) has(key types.NamespacedName, uid types.UID) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	found := m.jobs[key]
	return found != nil && found.uid == uid
}

func (m *memories) forget(key types.NamespacedName) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.jobs, key)
}

// lostOf is the evidence of a pod's deletion, in words that follow a name.
func lostOf(pod string) string { return "lost its pod " + pod + ", which was deleted" }

// podDeleted notes that the API server reported a pod's deletion. The watch calls it.
func (m *memories) podDeleted(key types.NamespacedName, owner types.UID, pod, evidence string) {
	m.mutex.Lock()
	found := m.jobs[key]
	m.mutex.Unlock()
	if found == nil || found.uid != owner {
		return
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	found.known.Gone[pod] = evidence
}

// snapshot is a copy for Decide, which other goroutines do not write to.
func (m *memory) snapshot() decide.Memory {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known := m.known
	known.Gone = maps.Clone(m.known.Gone)
	return known
}

func (m *memory) gone(pod, evidence string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.known.Gone[pod] = evidence
}

// note remembers the pods in the list. The cache loses a deleted pod a moment before the watch
// reports the deletion. Without this memory the pod would look like one that was never made.
func (m *memory) note(snapshot *decide.Snapshot) {
	if term := snapshot.Job.Status.MasterTerm; term != m.term {
		// Each master gets the full time to be heard, also one that another operator starts.
		m.term, m.known.Since = term, snapshot.Now
	}
	note := func(name string) {
		if _, isKnown := m.known.Made[name]; !isKnown {
			m.known.Made[name] = snapshot.Now
		}
	}
	newest := map[uint32]uint32{}
	for _, node := range snapshot.Nodes {
		note(node.Name)
		newest[node.Index] = max(newest[node.Index], node.Incarnation)
	}
	for _, master := range snapshot.Masters {
		note(master.Name)
	}
	m.prune(snapshot.Job.Name, newest)
}

// prune drops the pods that later incarnations have replaced, so that the memory does not grow for
// ever.
func (m *memory) prune(job string, newest map[uint32]uint32) {
	isOld := func(name string) bool {
		index, incarnation, isNode := parseNodePod(job, name)
		return isNode && incarnation < newest[index]
	}
	maps.DeleteFunc(m.known.Made, func(name string, _ time.Time) bool { return isOld(name) })
	m.mutex.Lock()
	defer m.mutex.Unlock()
	maps.DeleteFunc(m.known.Gone, func(name, _ string) bool { return isOld(name) })
}

// refusal makes the next refusal after `before`: the pause doubles, up to 8 s.
func refusal(before *decide.Refusal, words string, delay time.Duration,
	now time.Time) decide.Refusal {
	const pauseMax = 8 * time.Second
	next := decide.Refusal{Words: words}
	if before != nil {
		next.Failures = before.Failures + 1
	}
	pause := min(time.Second<<min(next.Failures, 3), pauseMax)
	next.Next = now.Add(max(pause, delay))
	return next
}

func (m *memory) refuse(words string, delay time.Duration, now time.Time) {
	next := refusal(m.known.Refused, words, delay, now)
	m.known.Refused = &next
}

func (m *memory) keep(data map[string][]byte) {
	m.token = string(data[command.TokenKey])
	m.authority = pki.Authority{CertificatePEM: data[command.CAKey], KeyPEM: data[command.CAKeyKey]}
	m.known.HasSecrets = true
}
