package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the API of this package.
var GroupVersion = schema.GroupVersion{Group: "paceline.dev", Version: "v1alpha1"}

// AddToScheme makes the types of this package known to a client.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ElasticJob{}, &ElasticJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
