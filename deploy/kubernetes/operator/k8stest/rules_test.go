package k8stest

import (
	"os/exec"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/internal/pb"
)

func TestTheServerRefusesBadSpecs(t *testing.T) {
	s := set(t)
	for words, change := range map[string]func(*v1alpha1.ElasticJob){
		"nodes.min must not be greater": func(j *v1alpha1.ElasticJob) { j.Spec.Nodes.Min = 9 },
		"multiples of nodes.unit":       func(j *v1alpha1.ElasticJob) { j.Spec.Nodes.Unit = 2 },
		"between nodes.min and":         func(j *v1alpha1.ElasticJob) { j.Spec.Nodes.Target = 4 },
		"target must be a multiple": func(j *v1alpha1.ElasticJob) {
			j.Spec.Nodes = v1alpha1.NodeRange{Min: 2, Max: 4, Unit: 2, Target: 3}
		},
		"one of file and module": func(j *v1alpha1.ElasticJob) { j.Spec.Script.Module = "m" },
		"at most 40 characters": func(j *v1alpha1.ElasticJob) {
			j.Name = strings.Repeat("a", 41)
		},
		"begins with a letter": func(j *v1alpha1.ElasticJob) { j.Name = "7up" },
		"should be greater than or equal to 0": func(j *v1alpha1.ElasticJob) {
			j.Spec.Spares = -1
		},
	} {
		job := s.job(1, 3, 0)
		change(job)
		err := theCluster.admin.Create(s.ctx, job)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("wanted %q, got %v", words, err)
		}
	}
	job := s.job(1, 3, 0)
	job.Spec.Template.Spec.Containers[0].Name = "main"
	s.must(theCluster.admin.Create(s.ctx, job))
	if got := s.awaitCondition(v1alpha1.ConditionFailed, true); got.Reason != "InvalidSpec" {
		t.Errorf("condition: %+v", got)
	}
	for words, change := range map[string]func(*v1alpha1.ElasticJob){
		"only target may change": func(j *v1alpha1.ElasticJob) { j.Spec.Nodes.Max = 5 },
		"spares is immutable":    func(j *v1alpha1.ElasticJob) { j.Spec.Spares = 5 },
		"script is immutable":    func(j *v1alpha1.ElasticJob) { j.Spec.Script.File = "x.py" },
		"template may change": func(j *v1alpha1.ElasticJob) {
			j.Spec.Template.Spec.Containers[0].Image = "other"
		},
	} {
		s.await(words, func() string {
			job := s.now()
			change(job)
			err := theCluster.admin.Update(s.ctx, job)
			if err == nil || apierrors.IsConflict(err) || !strings.Contains(err.Error(), words) {
				return "got " + errorText(err)
			}
			return ""
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// All tests run with these rights; this one says what the operator may not do.
func TestTheOperatorMayDoNoMore(t *testing.T) {
	s := set(t)
	for _, test := range []struct {
		verb, resource, subresource string
		isAllowed                   bool
	}{
		{"create", "pods", "", true}, {"delete", "pods", "", true}, {"watch", "nodes", "", true},
		{"create", "pods", "exec", false}, {"list", "secrets", "", false},
		{"update", "secrets", "", false}, {"delete", "secrets", "", false},
		{"update", "elasticjobs", "", false}, {"update", "elasticjobs", "scale", true},
		{"patch", "nodes", "", false}, {"update", "nodes", "", false},
		{"deletecollection", "pods", "", false}, {"create", "configmaps", "", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: operatorUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace,
				Verb: test.verb, Group: groupOf(test.resource), Resource: test.resource,
				Subresource: test.subresource},
		}}
		s.must(theCluster.admin.Create(s.ctx, review))
		if review.Status.Allowed != test.isAllowed {
			t.Errorf("%s %s/%s: allowed is %v", test.verb, test.resource, test.subresource,
				review.Status.Allowed)
		}
	}
}

func groupOf(resource string) string {
	if resource == "elasticjobs" {
		return v1alpha1.GroupVersion.Group
	}
	return ""
}

func TestKubectlShowsTheColumns(t *testing.T) {
	kubectl, err := exec.LookPath(kubectlPath())
	if err != nil {
		t.Skip("SKIPPED: there is no kubectl in K8S_BINARIES")
	}
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: 1, Step: 7, Goodput: 0.5, Last: "node1 lost"})
	s.awaitCondition(v1alpha1.ConditionDegraded, true)
	run := func(arguments ...string) string {
		output, err := exec.Command(kubectl, append([]string{"--kubeconfig",
			theCluster.path("admin.conf"), "-n", s.namespace}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", arguments, err, output)
		}
		return string(output)
	}
	lines := strings.Split(run("get", "ej"), "\n")
	for i, want := range []string{"NAME NODES SPARES STEP GOODPUT LAST STATE AGE",
		"train 1/2 0/0 7 50.0% node1 lost Degraded"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d: %s", i, got)
		}
	}
	s.fake.End(0, "done")
	run("wait", "--for=condition=Complete", "elasticjob/train", "--timeout=20s")
	if described := run("describe", "ej", "train"); !strings.Contains(described, "node1 lost") {
		t.Errorf("kubectl describe has no events:\n%s", described)
	}
}
