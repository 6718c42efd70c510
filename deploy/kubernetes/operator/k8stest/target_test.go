package k8stest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/internal/pb"
)

// scale writes the subresource, as kubectl scale and autoscalers do.
func (s *scene) scale(nodes int32) error {
	return theCluster.admin.SubResource("scale").Patch(s.ctx, s.now(),
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, nodes)))
}

func (s *scene) awaitTarget(nodes int32) {
	s.Helper()
	s.await(fmt.Sprintf("target %d", nodes), func() string {
		if got := s.now().Spec.Nodes.Target; got != nodes {
			return fmt.Sprintf("it is %d", got)
		}
		return ""
	})
}

// awaitSizes waits until the master was told these numbers, and no other.
func (s *scene) awaitSizes(want ...uint32) {
	s.Helper()
	s.await(fmt.Sprint("sizes ", want), func() string {
		var told []uint32
		for _, message := range s.fake.Told() {
			if wanted := message.GetSizeWanted(); wanted != nil {
				told = append(told, wanted.Nodes)
			}
		}
		if !slices.Equal(told, want) {
			return fmt.Sprint("told: ", told)
		}
		return ""
	})
}

func (s *scene) summary(nodes, size uint32) {
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: nodes, Step: 7, Size: &size})
}

func TestKubectlScaleAndTheCommandChangeOneTarget(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 4, 0))
	s.awaitTarget(4) // `/scale` cannot be read before
	s.wish(1, 4, 0, nil)
	s.awaitNodes(nodeNames(4)...)
	s.summary(4, 0)
	s.await("the scale", func() string {
		var scale autoscalingv1.Scale
		if err := theCluster.admin.SubResource("scale").Get(s.ctx, s.now(), &scale); err != nil {
			return err.Error()
		}
		if scale.Spec.Replicas != 4 || scale.Status.Replicas != 4 ||
			scale.Status.Selector != "paceline.dev/job=train,paceline.dev/role=node" {
			return fmt.Sprintf("%+v", scale)
		}
		return ""
	})
	for _, nodes := range []int32{0, 5} {
		if err := s.scale(nodes); err == nil || !strings.Contains(err.Error(), "nodes.target") {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
	s.awaitSizes()
	s.must(s.scale(2))
	s.awaitSizes(2)
	s.fake.Wish(&pb.Wish{Seq: 2, Intent: pb.Wish_RUN, Size: 4, Absent: []uint32{2, 3}})
	s.summary(4, 2)
	s.await("two live pods", func() string { return s.lives(2) })
	s.awaitEvent("Scaled", "from 4 to 2 nodes")
	s.summary(2, 3) // paceline scale --nodes 3
	s.awaitTarget(3)
	s.awaitEvent("Scaled", "from 2 to 3 nodes")
	s.must(s.scale(2))
	s.awaitSizes(2, 2)
	refused := &pb.Summary{Phase: "running", Nodes: 2, Size: new(uint32), SizeRefused: 2,
		Refusal: "the model does not fit"}
	*refused.Size = 3
	s.fake.Summary(refused)
	if told := s.awaitCondition(v1alpha1.ConditionTargetTaken, false); !strings.Contains(told.Message,
		"the model does not fit") {
		t.Errorf("%+v", told)
	}
}

// lives returns "" if that many pods of nodes are not deleted yet.
func (s *scene) lives(count int) string {
	live := 0
	for _, pod := range s.pods("node") {
		if pod.DeletionTimestamp == nil {
			live++
		}
	}
	if live != count {
		return fmt.Sprintf("%d live", live)
	}
	return ""
}

func TestAJobBeginsWithItsTarget(t *testing.T) {
	s := set(t)
	job := s.job(1, 4, 0)
	job.Spec.Nodes.Target = 2
	s.submit(job)
	s.wish(1, 4, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.summary(1, 0)
	s.awaitSizes(2)
	s.awaitNodes(nodeNames(2)...)
	s.fake.Wish(&pb.Wish{Seq: 2, Intent: pb.Wish_RUN, Size: 4, Absent: []uint32{2, 3}})
	s.summary(2, 2)
	s.must(s.scale(4))
	s.awaitSizes(2, 4)
	s.wish(3, 4, 0, nil)
	s.summary(2, 4)
	s.awaitNodes(nodeNames(4)...)
}

func TestKubectlScales(t *testing.T) {
	kubectl, err := exec.LookPath(kubectlPath())
	if err != nil {
		t.Skip("SKIPPED: there is no kubectl in K8S_BINARIES")
	}
	s := set(t)
	s.submit(s.job(1, 3, 0))
	s.awaitTarget(3)
	s.summary(3, 0)
	output, err := exec.Command(kubectl, "--kubeconfig", theCluster.path("admin.conf"), "-n",
		s.namespace, "scale", "elasticjob/train", "--replicas=2").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	s.awaitSizes(2)
}
