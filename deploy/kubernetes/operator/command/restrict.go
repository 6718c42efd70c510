package command

import (
	corev1 "k8s.io/api/core/v1"
)

// restrict makes the pod fit the level "restricted" of the Pod Security Standards, where the
// template does not say otherwise.
func restrict(spec *corev1.PodSpec) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod := spec.SecurityContext
	if pod.SeccompProfile == nil {
		pod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if !namesUser(spec) {
		yes, user := true, int64(defaultUser)
		pod.RunAsNonRoot, pod.RunAsUser, pod.RunAsGroup = &yes, &user, &user
		if pod.FSGroup == nil {
			pod.FSGroup = &user
		}
		// The image need not know this user: Python asks these names before the table of users.
		train := trainContainer(spec)
		addEnvironment(train, map[string]string{"HOME": "/tmp", "USER": "paceline"})
	}
	for i := range spec.InitContainers {
		restrictContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		restrictContainer(&spec.Containers[i])
	}
}

// namesUser says whether the template decides about the user.
func namesUser(spec *corev1.PodSpec) bool {
	pod := spec.SecurityContext
	if pod.RunAsUser != nil || pod.RunAsNonRoot != nil {
		return true
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			own := containers[i].SecurityContext
			if own != nil && (own.RunAsUser != nil || own.RunAsNonRoot != nil ||
				own.Privileged != nil && *own.Privileged) {
				return true
			}
		}
	}
	return false
}

func restrictContainer(container *corev1.Container) {
	if container.SecurityContext == nil {
		container.SecurityContext = &corev1.SecurityContext{}
	}
	own := container.SecurityContext
	if own.Privileged != nil && *own.Privileged {
		return
	}
	if own.AllowPrivilegeEscalation == nil {
		no := false
		own.AllowPrivilegeEscalation = &no
	}
	if own.Capabilities == nil {
		own.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
}
