package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// UnmarshalJSON never fails for an object that the API server stores. Lists and watches are decoded
// whole, so an error here would hide every job of the cluster. A job with a field of the wrong type
// keeps its metadata only, and Unreadable names the field.
func (job *ElasticJob) UnmarshalJSON(text []byte) error {
	type plain ElasticJob // has no UnmarshalJSON
	var whole plain
	err := kjson.UnmarshalCaseSensitivePreserveInts(text, &whole)
	if err == nil {
		*job = ElasticJob(whole)
		return nil
	}
	var head struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta `json:"metadata,omitempty"`
	}
	if headErr := kjson.UnmarshalCaseSensitivePreserveInts(text, &head); headErr != nil {
		return err // no object of an API server
	}
	*job = ElasticJob{TypeMeta: head.TypeMeta, ObjectMeta: head.Metadata}
	job.Unreadable = wordsOf(text, err)
	return nil
}

// wordsOf says which field cannot be read and why.
func wordsOf(text []byte, err error) string {
	var value map[string]any
	if json.Unmarshal(text, &value) != nil {
		return err.Error()
	}
	fits := func(part any) error {
		type plain ElasticJob
		bytes, failed := json.Marshal(part)
		if failed != nil {
			return failed
		}
		return kjson.UnmarshalCaseSensitivePreserveInts(bytes, &plain{})
	}
	path, err := narrow(value, "", fits, err)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Sprintf("%s is of type %s and must be of type %s", path, mismatch.Value,
			kindOf(mismatch.Type))
	}
	return fmt.Sprintf("%s cannot be read: %s", path, err)
}

// narrow returns the path of the smallest part of the value that does not fit, and its error. `fits`
// tests a value in the place of this one. A value of which only one member is left fits if that
// member does, because no field is needed to decode a job.
func narrow(value any, path string, fits func(any) error, err error) (string, error) {
	switch whole := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(whole)) {
			inner := func(part any) error { return fits(map[string]any{key: part}) }
			if failed := inner(whole[key]); failed != nil {
				return narrow(whole[key], join(path, key), inner, failed)
			}
		}
	case []any:
		for i, item := range whole {
			inner := func(part any) error { return fits([]any{part}) }
			if failed := inner(item); failed != nil {
				return narrow(item, path+"["+strconv.Itoa(i)+"]", inner, failed)
			}
		}
	}
	return path, err
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// kindOf names a Go type in the words of JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "number"
}
