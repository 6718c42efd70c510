package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const goodSpec = `"nodes":{"min":1,"max":2},"script":{"file":"t.py"}`

func objectWith(spec, status string) string {
	return `{"apiVersion":"paceline.dev/v1alpha1","kind":"ElasticJob","metadata":{"name":"train",` +
		`"namespace":"team","uid":"7","resourceVersion":"3","deletionTimestamp":"2026-01-01T00:00:00Z"},` +
		`"spec":{` + spec + `},"status":{` + status + `}}`
}

func TestAGoodJobIsReadWhole(t *testing.T) {
	var job ElasticJob
	text := objectWith(goodSpec+`,"fromANewerRelease":{"x":1}`, `"masterTerm":3`)
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	if job.Unreadable != "" || job.Spec.Nodes.Max != 2 || job.Status.MasterTerm != 3 {
		t.Errorf("%+v", job)
	}
}

func TestABadFieldIsNamed(t *testing.T) {
	pod := func(spec string) string { return goodSpec + `,"template":{"spec":{` + spec + `}}` }
	for words, spec := range map[string]string{
		"spec.template.spec.tolerations is of type string and must be of type array": pod(
			`"tolerations":"gpu"`),
		"spec.template.spec.containers[1].env[0].value is of type number and must be of type string": pod(
			`"containers":[{"name":"a"},{"name":"train","env":[{"name":"X","value":1}]}]`),
		"spec.template.spec.hostNetwork is of type string and must be of type bool": pod(
			`"hostNetwork":"yes"`),
		"spec.template.spec.containers[0].resources.limits.memory cannot be read: quantities": pod(
			`"containers":[{"name":"train","resources":{"limits":{"memory":"2GBB"}}}]`),
		"spec.nodes is of type number and must be of type object": `"nodes":3`,
		"spec.nodes.min is of type":                               `"nodes":{"min":"one"}`,
		"spec.spares is of type number 1.5 and must be of type number": goodSpec +
			`,"spares":1.5`,
	} {
		var job ElasticJob
		if err := json.Unmarshal([]byte(objectWith(spec, "")), &job); err != nil {
			t.Errorf("%s: %v", words, err)
		}
		if !strings.HasPrefix(job.Unreadable, words) {
			t.Errorf("wanted %q, got %q", words, job.Unreadable)
		}
		if job.Name != "train" || job.UID != "7" || job.ResourceVersion != "3" ||
			job.DeletionTimestamp == nil || !reflect.DeepEqual(job.Spec, ElasticJobSpec{}) {
			t.Errorf("%+v", job)
		}
	}
	var job ElasticJob
	if err := json.Unmarshal([]byte(objectWith(goodSpec, `"step":7`)), &job); err != nil ||
		job.Unreadable != "status.step is of type number and must be of type string" {
		t.Errorf("%v %q", err, job.Unreadable)
	}
}

func TestABadJobLeavesTheOthersOfItsList(t *testing.T) {
	for _, field := range fieldsOfAPod(t) {
		bad := goodSpec + `,"template":{"spec":{"` + field.name + `":` + field.wrong + `}}`
		text := `{"items":[` + objectWith(bad, "") + `,` + objectWith(goodSpec, "") + `]}`
		var list ElasticJobList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%s: %v", field.name, err)
		}
		want := "spec.template.spec." + field.name
		if got := list.Items[0].Unreadable; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", field.name, got)
		}
		if list.Items[1].Unreadable != "" || list.Items[1].Spec.Nodes.Max != 2 {
			t.Errorf("%s: %+v", field.name, list.Items[1])
		}
	}
}

type wrongField struct{ name, wrong string }

// fieldsOfAPod returns each field of a pod's spec with a value of a wrong type.
func fieldsOfAPod(t *testing.T) []wrongField {
	spec := reflect.TypeOf(ElasticJobSpec{}.Template.Spec)
	var fields []wrongField
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		wrong := `"text"`
		if kindOf(spec.Field(i).Type) == "string" {
			wrong = `7`
		}
		fields = append(fields, wrongField{name, wrong})
	}
	if len(fields) < 35 {
		t.Fatalf("%d fields", len(fields))
	}
	return fields
}
