package k8stest

import (
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
)

// mayOnly changes the operator's verbs on pods, and returns when the API server knows it.
func (s *scene) mayOnly(verbs ...string) {
	s.Helper()
	role := &rbacv1.ClusterRole{}
	s.must(theCluster.admin.Get(s.ctx, client.ObjectKey{Name: "paceline-operator"}, role))
	for i := range role.Rules {
		if slices.Equal(role.Rules[i].Resources, []string{"pods"}) {
			role.Rules[i].Verbs = verbs
		}
	}
	s.must(theCluster.admin.Update(s.ctx, role))
	for _, verb := range []string{"get", "list", "watch", "create", "delete"} {
		s.await("the right to "+verb, func() string {
			review := &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: operatorUser,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace,
						Verb: verb, Resource: "pods"}}}
			s.must(theCluster.admin.Create(s.ctx, review))
			if review.Status.Allowed != slices.Contains(verbs, verb) {
				return "the API server does not know it yet"
			}
			return ""
		})
	}
}

func (s *scene) awaitEvent(reason, words string) {
	s.Helper()
	s.await("an event "+reason, func() string {
		var events corev1.EventList
		s.must(theCluster.admin.List(s.ctx, &events, client.InNamespace(s.namespace)))
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, words) &&
				event.InvolvedObject.Name == "train" {
				return ""
			}
		}
		return "there is none"
	})
}

var allVerbs = []string{"get", "list", "watch", "create", "delete"}

func TestAnOperatorWithoutARightNamesItAndGoesOnOnceItHasIt(t *testing.T) {
	s := setAlone(t)
	s.killOperator()
	s.mayOnly("get", "watch", "delete")
	defer s.mayOnly(allVerbs...)
	s.must(theCluster.admin.Create(s.ctx, s.job(1, 2, 0)))
	s.startOperator()
	s.await("a condition that names the rights", func() string {
		found := meta.FindStatusCondition(s.now().Status.Conditions, v1alpha1.ConditionMasterReady)
		if found == nil || found.Reason != "RightsMissing" ||
			!strings.Contains(found.Message, "list pods, create pods") {
			return "there is none"
		}
		return ""
	})
	s.awaitEvent("RightsMissing", "install.yaml")
	if got := len(s.pods(command.RoleMaster)); got != 0 {
		t.Errorf("%d masters", got)
	}
	s.mayOnly(allVerbs...)
	s.serve(1)
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.awaitCondition(v1alpha1.ConditionMasterReady, true)
}

func TestARightThatIsTakenAwayIsNamed(t *testing.T) {
	s := setAlone(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.mayOnly("get", "list", "watch", "create")
	defer s.mayOnly(allVerbs...)
	s.wish(2, 2, 0, map[uint32]uint32{1: 1})
	s.awaitEvent("RightsMissing", "may not delete pods")
	s.awaitCondition(v1alpha1.ConditionMasterReady, true)
	s.mayOnly(allVerbs...)
	s.awaitNodes("train-node0-0", "train-node1-1")
	s.await("the log", func() string {
		log, err := os.ReadFile(theCluster.path("operator-" + s.namespace + ".log"))
		s.must(err)
		if !strings.Contains(string(log), `"missing":""`) {
			return "it does not say that the rights are back"
		}
		return ""
	})
}
