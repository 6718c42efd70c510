package v1alpha1

import (
	"context"
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// definition reads the CRD as an API server does, which also bounds the cost of its rules.
func definition(t *testing.T) *schema.Structural {
	t.Helper()
	text, err := os.ReadFile("../../config/paceline.dev_elasticjobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var written apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &written); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&written)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&written.Spec)
	written.Status.StoredVersions = []string{"v1alpha1"}
	var read apiextensions.CustomResourceDefinition
	err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		&written, &read, nil)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateCustomResourceDefinition(context.Background(), &read); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	made, err := schema.NewStructural(read.Spec.Validation.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func jobOf(nodes string) map[string]any {
	var job map[string]any
	if err := yaml.Unmarshal([]byte("{metadata: {name: train}, spec: {nodes: "+nodes+
		", script: {file: t.py}, template: {}}}"), &job); err != nil {
		panic(err)
	}
	return asIntegers(job).(map[string]any)
}

// asIntegers makes the numbers those of an API server.
func asIntegers(value any) any {
	switch whole := value.(type) {
	case map[string]any:
		for key, inner := range whole {
			whole[key] = asIntegers(inner)
		}
	case float64:
		return int64(whole)
	}
	return value
}

func TestOfNodesOnlyTheTargetChanges(t *testing.T) {
	rules := definition(t)
	validator := cel.NewValidator(rules, true, celconfig.PerCallLimit)
	for _, test := range []struct{ before, after, problem string }{
		{"", "{min: 1, max: 4}", ""},
		{"", "{min: 1, max: 4, target: 4}", ""},
		{"", "{min: 2, max: 4, target: 1}", "nodes.target must be between"},
		{"", "{min: 2, max: 4, target: 5}", "nodes.target must be between"},
		{"", "{min: 2, max: 4, unit: 2, target: 3}", "multiple of nodes.unit"},
		{"{min: 1, max: 4}", "{min: 1, max: 4, target: 2}", ""},
		{"{min: 1, max: 4, target: 2}", "{min: 1, max: 4, target: 3}", ""},
		{"{min: 1, max: 4, target: 2}", "{min: 1, max: 4}", ""},
		{"{min: 1, max: 4}", "{min: 1, max: 5}", "only target may change"},
		{"{min: 2, max: 4}", "{min: 1, max: 4}", "only target may change"},
		{"{min: 2, max: 4}", "{min: 2, max: 4, unit: 2}", "only target may change"},
	} {
		job := jobOf(test.after)
		defaulting.Default(job, rules)
		var old any
		if test.before != "" {
			before := jobOf(test.before)
			defaulting.Default(before, rules)
			old = before
		}
		errs, _ := validator.Validate(context.Background(), nil, rules, job, old,
			celconfig.RuntimeCELCostBudget)
		told := ""
		if err := errs.ToAggregate(); err != nil {
			told = err.Error()
		}
		if (told == "") != (test.problem == "") || !strings.Contains(told, test.problem) {
			t.Errorf("%s after %s: %q", test.after, test.before, told)
		}
	}
}
