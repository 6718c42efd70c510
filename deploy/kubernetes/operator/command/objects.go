package command

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"paceline.dev/operator/api/v1alpha1"
)

// Service gives the nodes one address for all masters of the job. It is a virtual address, so that
// no cache of names stands between a new master and its nodes.
func Service(job *v1alpha1.ElasticJob, term int64) *corev1.Service {
	service := &corev1.Service{}
	service.ObjectMeta = objectMeta(job, ServiceName(job.Name))
	service.Spec = corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: Selector(job.Name, term),
		Ports: []corev1.ServicePort{{
			Name: "master", Port: Port, TargetPort: intstr.FromInt32(Port), Protocol: corev1.ProtocolTCP,
		}},
		// A node may ask before the master's pod is ready.
		PublishNotReadyAddresses: true,
	}
	return service
}

// Selector of the pods that the Service leads to: those of the term's master.
func Selector(job string, term int64) map[string]string {
	return map[string]string{
		JobLabel: job, RoleLabel: RoleMaster, TermLabel: strconv.FormatInt(term, 10),
	}
}

// NodeSelector of the pods of all nodes and spares, as text.
func NodeSelector(job string) string {
	return labels.SelectorFromSet(labels.Set{JobLabel: job, RoleLabel: RoleNode}).String()
}

// Secrets are the master's, with the authority's key, and the nodes', without it.
func Secrets(job *v1alpha1.ElasticJob, token, ca, caKey []byte) (master, node *corev1.Secret) {
	master = &corev1.Secret{Type: corev1.SecretTypeOpaque}
	master.ObjectMeta = objectMeta(job, ServiceName(job.Name))
	master.Data = map[string][]byte{TokenKey: token, CAKey: ca, CAKeyKey: caKey}
	node = &corev1.Secret{Type: corev1.SecretTypeOpaque}
	node.ObjectMeta = objectMeta(job, NodeSecretName(job.Name))
	node.Data = map[string][]byte{TokenKey: token, CAKey: ca}
	return master, node
}

func objectMeta(job *v1alpha1.ElasticJob, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: job.Namespace, OwnerReferences: OwnerOf(job),
		Labels: map[string]string{JobLabel: job.Name},
	}
}
