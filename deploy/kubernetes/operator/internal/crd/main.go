// Command crd shortens the CRD that controller-gen made: it removes the descriptions of Kubernetes'
// own types, which are most of the text. It also makes their lists atomic: Kubernetes accepts a pod
// with two variables of one name, so a template may have them as well. Defaults are left to the pod.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crd:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var definition map[string]any
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return err
	}
	spec := definition["spec"].(map[string]any)
	for _, version := range spec["versions"].([]any) {
		schema := version.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"]
		job := propertiesOf(propertiesOf(schema)["spec"])
		strip(propertiesOf(job["template"]))
		for _, field := range propertiesOf(job["master"]) {
			strip(propertiesOf(field))
			if items, isList := field.(map[string]any)["items"]; isList {
				strip(propertiesOf(items))
			}
		}
	}
	if text, err = yaml.Marshal(definition); err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("---\n"), text...), 0o644)
}

func propertiesOf(schema any) map[string]any {
	properties, _ := schema.(map[string]any)["properties"].(map[string]any)
	return properties
}

// strip shortens each schema of a set of properties, at every depth.
func strip(properties map[string]any) {
	for _, schema := range properties {
		shorten(schema.(map[string]any))
	}
}

func shorten(schema map[string]any) {
	for _, key := range []string{"description", "default", "x-kubernetes-list-map-keys",
		"x-kubernetes-list-type", "x-kubernetes-map-type"} {
		delete(schema, key)
	}
	strip(propertiesOf(schema))
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, isSchema := schema[key].(map[string]any); isSchema {
			shorten(inner)
		}
	}
}
