package k8stest

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
)

const gate = "example.com/whole"

// awaitGated waits until exactly so many pods of the job exist, none of which may be scheduled.
func (s *scene) awaitGated(role string, count int) {
	s.Helper()
	s.await(fmt.Sprintf("%d pods of %s", count, role), func() string {
		pods := s.pods(role)
		for name, pod := range pods {
			if len(pod.Spec.SchedulingGates) != 1 {
				s.Fatalf("%s has no gate", name)
			}
		}
		if len(pods) != count {
			return fmt.Sprintf("%d exist", len(pods))
		}
		return ""
	})
}

// openGates is a scheduler of groups that has room for all of the job's pods.
func (s *scene) openGates() {
	s.Helper()
	for _, role := range []string{command.RoleMaster, command.RoleNode} {
		for _, pod := range s.pods(role) {
			pod.Spec.SchedulingGates = nil
			s.must(theCluster.admin.Update(s.ctx, pod))
		}
	}
}

// A queue's gates stand on every pod. They are opened when the group is complete, which needs no
// master that runs. A quota that is one pod short keeps the group incomplete.
func TestAGatedJobIsMadeWholeBeforeAnythingRuns(t *testing.T) {
	s := set(t)
	quota := s.quota("pods", "3")
	job := s.job(3, 5, 0)
	job.Labels = map[string]string{command.QueueLabel: "team"}
	job.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	s.must(theCluster.admin.Create(s.ctx, job))
	s.awaitGated(command.RoleMaster, 1)
	s.awaitGated(command.RoleNode, 2)
	s.await("the refusal in the status", func() string {
		pending := fmt.Sprint(s.now().Status.Pending)
		if !strings.Contains(pending, "exceeded quota") {
			return pending
		}
		return ""
	})
	// Its controller writes to it, so an update would conflict.
	s.must(theCluster.admin.Patch(s.ctx, quota, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec": {"hard": {"pods": "10"}}}`))))
	s.awaitGated(command.RoleNode, 3)
	for name, pod := range s.pods(command.RoleNode) {
		if !strings.HasPrefix(pod.Labels[command.QueueGroupLabel], "train-1-") ||
			pod.Annotations[command.QueueGroupCount] != "4" {
			t.Errorf("%s: %v %v", name, pod.Labels, pod.Annotations)
		}
	}
	before := s.pods(command.RoleNode)
	s.openGates()
	s.serve(1)
	s.wish(1, 5, 0, nil)
	s.awaitNodes(nodeNames(5)...)
	s.goesOnWith(before)
}
