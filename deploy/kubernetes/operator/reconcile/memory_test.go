package reconcile

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"paceline.dev/operator/decide"
)

// The cache forgets a deleted pod a moment before the watch tells of it.
func TestAPodThatWasSeenIsRemembered(t *testing.T) {
	now := time.Now()
	all := memories{jobs: map[types.NamespacedName]*memory{}}
	m := all.of(types.NamespacedName{Namespace: "a", Name: "train"}, "7", now)
	node := decide.NodePod{Pod: decide.Pod{Name: "train-node1-2"}, Index: 1, Incarnation: 2}
	master := decide.MasterPod{Pod: decide.Pod{Name: "train-master-1"}, Term: 1}
	snapshot := decide.Snapshot{Now: now, Job: decide.Job{Name: "train"},
		Nodes: []decide.NodePod{node}, Masters: []decide.MasterPod{master}}
	m.known.Made["train-node1-1"] = now
	m.known.Gone["train-node1-1"] = "the pod was deleted"
	m.note(&snapshot)
	m.note(&decide.Snapshot{Now: now.Add(time.Second), Job: snapshot.Job})
	for _, name := range []string{"train-node1-2", "train-master-1"} {
		if at := m.known.Made[name]; !at.Equal(now) {
			t.Errorf("%s: %v", name, at)
		}
	}
	if len(m.known.Made) != 2 || len(m.known.Gone) != 0 {
		t.Errorf("replaced pods are kept: %v, %v", m.known.Made, m.known.Gone)
	}
	if all.of(types.NamespacedName{Namespace: "a", Name: "train"}, "8", now) == m {
		t.Error("a new job of that name got the old one's memory")
	}
}

func TestPausesDoubleUpToEightSeconds(t *testing.T) {
	now := time.Now()
	var last *decide.Refusal
	for _, want := range []time.Duration{1, 2, 4, 8, 8} {
		next := refusal(last, "no", 0, now)
		if got := next.Next.Sub(now); got != want*time.Second {
			t.Errorf("pause %v, wanted %v s", got, want)
		}
		last = &next
	}
	if got := refusal(nil, "no", time.Minute, now).Next.Sub(now); got != time.Minute {
		t.Errorf("the server asked for a minute, got %v", got)
	}
}

func TestPodNamesAreReadBack(t *testing.T) {
	for name, want := range map[string]bool{
		"train-node3-12": true, "train-node3": false, "train-nodex-1": false, "other-node3-1": false,
		"train-master-1": false, "train-node3-1-2": false, "train-node-1": false,
	} {
		if index, incarnation, ok := parseNodePod("train", name); ok != want ||
			ok && (index != 3 || incarnation != 12) {
			t.Errorf("%s: %d, %d, %v", name, index, incarnation, ok)
		}
	}
}
