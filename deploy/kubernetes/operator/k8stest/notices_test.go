package k8stest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
)

// newHost makes a Kubernetes node.
func (s *scene) newHost(name string) *corev1.Node {
	s.Helper()
	host := &corev1.Node{}
	host.Name = name + "-" + s.namespace
	s.must(theCluster.admin.Create(s.ctx, host))
	s.Cleanup(func() { theCluster.admin.Delete(s.ctx, host) })
	return host
}

// bind is the scheduler: the pod runs on the host.
func (s *scene) bind(name string, host *corev1.Node) {
	s.Helper()
	pod := s.pods(command.RoleNode)[name]
	s.must(theCluster.admin.SubResource("binding").Create(s.ctx, pod,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: host.Name}}))
	s.runs(s.pods(command.RoleNode)[name], "10.0.0.9")
}

func (s *scene) taint(host *corev1.Node, key string, effect corev1.TaintEffect) {
	s.Helper()
	s.await("the taint", func() string {
		s.must(theCluster.admin.Get(s.ctx, client.ObjectKeyFromObject(host), host))
		host.Spec.Taints = append(host.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
		if err := theCluster.admin.Update(s.ctx, host); err != nil {
			return err.Error()
		}
		return ""
	})
}

// notices are what the master was told of nodes that will be taken away: "node1: why".
func (s *scene) notices() []string {
	var found []string
	for _, message := range s.fake.Told() {
		if notice := message.GetNotice(); notice != nil {
			found = append(found, notice.GetName()+": "+notice.GetWhy())
		}
	}
	return found
}

func (s *scene) awaitNotice(node, words string) {
	s.Helper()
	s.await("a notice for "+node, func() string {
		for _, notice := range s.notices() {
			if strings.HasPrefix(notice, node+": ") && strings.Contains(notice, words) {
				return ""
			}
		}
		return fmt.Sprint(s.notices())
	})
}

func TestATaintOfANodeIsANoticeForItsPods(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 3, 0))
	s.wish(1, 3, 0, nil)
	s.awaitNodes(nodeNames(3)...)
	stays, leaves := s.newHost("stays"), s.newHost("leaves")
	s.bind("train-node0-0", stays)
	s.bind("train-node1-0", leaves)
	s.bind("train-node2-0", leaves)
	s.taint(stays, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	s.taint(leaves, "ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)
	s.awaitNotice("node1", leaves.Name+" has the taint ToBeDeletedByClusterAutoscaler:NoSchedule")
	s.awaitNotice("node2", leaves.Name)
	if deletes := s.proxy.count("DELETE pods"); deletes > 0 {
		t.Errorf("%d pods were deleted without a wish", deletes)
	}
	// The master requests the next incarnation, and the operator ends the pod before it.
	s.wish(2, 3, 0, map[uint32]uint32{1: 1})
	s.await("the next pod of node1", func() string {
		pods := s.pods(command.RoleNode)
		if next, old := pods["train-node1-1"], pods["train-node1-0"]; next == nil ||
			old != nil && old.DeletionTimestamp == nil {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
	for _, notice := range s.notices() {
		if strings.HasPrefix(notice, "node0") {
			t.Errorf("a node that may come back: %s", notice)
		}
	}
	if got := len(s.notices()); got != 2 {
		t.Errorf("notices were repeated: %v", s.notices())
	}
}

func TestWithoutTheRightToReadNodesTaintsAreNoNotices(t *testing.T) {
	s := set(t)
	s.killOperator()
	var refused atomic.Int32
	s.proxy.setAnswer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(verbOf(r), " nodes") {
			return false
		}
		refused.Add(1)
		answerStatus(w, http.StatusForbidden, "Forbidden")
		return true
	})
	s.startOperator()
	s.submit(s.job(1, 1, 0))
	s.wish(1, 1, 0, nil)
	s.awaitNodes("train-node0-0")
	host := s.newHost("leaves")
	s.bind("train-node0-0", host)
	s.taint(host, "example.org/maintenance", corev1.TaintEffectNoExecute)
	s.await("three refusals", func() string {
		if got := refused.Load(); got < 3 {
			return fmt.Sprintf("%d of them", got)
		}
		return ""
	})
	log, err := os.ReadFile(theCluster.path("operator-" + s.namespace + ".log"))
	s.must(err)
	if got := strings.Count(string(log), "taints_unknown"); got != 1 {
		t.Errorf("%d lines of the log tell of the missing right", got)
	}
	if got := s.notices(); len(got) > 0 {
		t.Errorf("notices: %v", got)
	}
	s.proxy.setAnswer(nil)
	s.awaitNotice("node0", "example.org/maintenance:NoExecute")
}
