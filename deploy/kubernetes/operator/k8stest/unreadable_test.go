package k8stest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
)

// raw is a job without types, with the fields of a pod's spec.
func (s *scene) raw(name string, fields map[string]any) *unstructured.Unstructured {
	pod := map[string]any{"containers": []any{map[string]any{"name": "train", "image": "i"}}}
	for field, value := range fields {
		pod[field] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "paceline.dev/v1alpha1", "kind": "ElasticJob",
		"metadata": map[string]any{"name": name, "namespace": s.namespace},
		"spec": map[string]any{"nodes": map[string]any{"min": int64(1), "max": int64(1)},
			"script": map[string]any{"file": "t.py"}, "template": map[string]any{"spec": pod}},
	}}
}

// Each field of a pod's spec with a value of a wrong type is refused when the job is written.
func TestTheServerRefusesEachFieldOfAWrongType(t *testing.T) {
	s := set(t)
	pod := reflect.TypeOf(corev1.PodSpec{})
	for i := range pod.NumField() {
		name, _, _ := strings.Cut(pod.Field(i).Tag.Get("json"), ",")
		wrong := any("text")
		if kind := pod.Field(i).Type; kind.Kind() == reflect.String ||
			kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.String {
			wrong = int64(7)
		}
		err := theCluster.admin.Create(s.ctx, s.raw("bad", map[string]any{name: wrong}),
			client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "spec.template.spec."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	variable := map[string]any{"name": "train", "image": "i",
		"env": []any{map[string]any{"name": "X", "value": int64(1)}}}
	err := theCluster.admin.Create(s.ctx, s.raw("bad",
		map[string]any{"containers": []any{variable}}), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "containers[0].env[0].value") {
		t.Errorf("a variable that is a number: %v", err)
	}
}

func TestTheServerRefusesFlagsOfTheOperator(t *testing.T) {
	s := set(t)
	for _, flag := range []string{"--nnodes", "--nnodes=9", "--spares", "--name=x", "--run-dir",
		"--run_dir=/x", "--node-name", "--node_name", "--incarnation", "--credentials",
		"--rdzv-endpoint", "--local-nodes", "--nproc-per-node", "--nproc_per_node=2", "--module", "-m"} {
		job := s.job(1, 3, 0)
		job.Spec.Flags = []string{"--ckpt-every", "30s", flag}
		err := theCluster.admin.Create(s.ctx, job, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "the operator sets") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	job := s.job(1, 3, 0)
	job.Spec.Flags = []string{"--ckpt-every", "30s", "--max-restarts=3", "--grow", "now"}
	s.must(theCluster.admin.Create(s.ctx, job, client.DryRunAll))
}

// definition reads the CRD, changes its schema, and writes it.
func (s *scene) definition(change func(spec map[string]any)) {
	s.Helper()
	s.await("another definition", func() string {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		s.must(theCluster.admin.Get(s.ctx, client.ObjectKey{Name: "elasticjobs.paceline.dev"}, crd))
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		version := versions[0].(map[string]any)
		spec, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec")
		change(spec)
		s.must(unstructured.SetNestedMap(version, spec, "schema", "openAPIV3Schema", "properties", "spec"))
		s.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		if err := theCluster.admin.Update(s.ctx, crd); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Jobs that another release's definition let in: the first with a template without a schema, as the
// releases before had it; the second with fields of other types, as a newer one may have them. Each
// is told, and a job beside them is made, healed and ended.
func TestAJobThatCannotBeReadHarmsNoOther(t *testing.T) {
	s := setAlone(t)
	var before map[string]any
	s.definition(func(spec map[string]any) {
		before = map[string]any{}
		for key, value := range spec {
			before[key] = value
		}
		for key := range spec {
			delete(spec, key)
		}
		spec["type"], spec["x-kubernetes-preserve-unknown-fields"] = "object", true
	})
	older := s.raw("older", map[string]any{"tolerations": "gpu"})
	newer := s.raw("newer", nil)
	s.must(unstructured.SetNestedField(newer.Object, "1..8", "spec", "nodes"))
	s.await("jobs of other definitions", func() string {
		for _, job := range []*unstructured.Unstructured{older, newer} {
			err := theCluster.admin.Create(s.ctx, job.DeepCopy())
			if err != nil && !strings.Contains(err.Error(), "already exists") {
				return err.Error() // the server still has the definition before
			}
		}
		return ""
	})
	s.definition(func(spec map[string]any) {
		for key := range spec {
			delete(spec, key)
		}
		for key, value := range before {
			spec[key] = value
		}
	})
	s.killOperator()
	s.startOperator() // its first lists have both
	s.awaitUnreadable("older", "spec.template.spec.tolerations is of type string")
	s.awaitUnreadable("newer", "spec.nodes is of type string")
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.must(theCluster.admin.Delete(s.ctx, s.pods(command.RoleNode)["train-node1-0"],
		client.GracePeriodSeconds(0)))
	s.awaitTold("node1", true, "lost its pod")
	s.wish(2, 2, 0, map[uint32]uint32{1: 1})
	s.awaitNodes("train-node0-0", "train-node1-1")
	s.fake.End(0, "done")
	s.awaitCondition(v1alpha1.ConditionComplete, true)
	if pods := s.pods(command.RoleMaster); len(pods) != 1 {
		t.Errorf("masters: %d", len(pods))
	}
	// A mended job begins.
	s.await("a mended job", func() string {
		job := s.read("older")
		s.must(unstructured.SetNestedField(job.Object, true, "spec", "suspend"))
		unstructured.RemoveNestedField(job.Object, "spec", "template", "spec", "tolerations")
		return errorOr(theCluster.admin.Update(s.ctx, job))
	})
	s.await("the state of the mended job", func() string {
		if state, _, _ := unstructured.NestedString(s.read("older").Object, "status", "state"); state !=
			"Suspended" {
			return state
		}
		return ""
	})
}

func errorOr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *scene) read(name string) *unstructured.Unstructured {
	job := s.raw(name, nil)
	s.must(theCluster.admin.Get(s.ctx, client.ObjectKeyFromObject(job), job))
	return job
}

// awaitUnreadable waits for the event. The status may stay as it was: as soon as the server has the
// present definition, it evaluates the rules of the spec at each write of the status, and refuses it.
func (s *scene) awaitUnreadable(name, words string) {
	s.Helper()
	s.await(name+" is told", func() string {
		events := &corev1.EventList{}
		s.must(theCluster.admin.List(s.ctx, events, client.InNamespace(s.namespace)))
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Reason == "Unreadable" &&
				strings.Contains(event.Message, words) {
				return ""
			}
		}
		return fmt.Sprintf("%d events", len(events.Items))
	})
}
