// Package command holds the command lines of the job's containers, and what they find there. All
// that depends on the flags of paceline run stands in this file.
package command

import (
	"fmt"
	"strconv"

	"paceline.dev/operator/api/v1alpha1"
)

const (
	// CredentialsDir is where the Secret of the pod is mounted.
	CredentialsDir = "/etc/paceline/credentials"
	// RunDir is new with each container.
	RunDir = "/tmp/paceline/run"
	// Port of the master.
	Port = 29400
	// ServerName is the name in the certificate of each job's master, whatever its address.
	ServerName = "master.paceline.internal"
	// OperatorURI stands in the operator's client certificate.
	OperatorURI = "paceline://operator"

	// Keys of the Secrets.
	TokenKey = "token"
	CAKey    = "ca.pem"
	CAKeyKey = "ca.key" // in the master's Secret only
)

// ServiceName is the name of the Service, and of the Secret of the master.
func ServiceName(job string) string { return job + "-master" }

// NodeSecretName is the name of the Secret of the nodes, which has no key of the authority.
func NodeSecretName(job string) string { return job + "-node" }

// Master is the command line of a master's container.
func Master(job *v1alpha1.ElasticJob) []string {
	nodes := job.Spec.Nodes
	line := []string{
		"paceline", "run",
		"--credentials", CredentialsDir,
		"--rdzv-endpoint", fmt.Sprintf("0.0.0.0:%d", Port),
		"--local-nodes", "0",
		"--nnodes", fmt.Sprintf("%d:%d", nodes.Min, nodes.Max),
		"--spares", strconv.Itoa(int(job.Spec.Spares)),
		"--name", job.Name,
	}
	return finish(line, job)
}

// Node is the command line of a node's container.
func Node(job *v1alpha1.ElasticJob, node string, incarnation uint32) []string {
	line := []string{
		"paceline", "run",
		"--credentials", CredentialsDir,
		"--rdzv-endpoint", fmt.Sprintf("%s.%s.svc:%d", ServiceName(job.Name), job.Namespace, Port),
		"--node-name", node,
		"--incarnation", strconv.FormatUint(uint64(incarnation), 10),
	}
	return finish(line, job)
}

// finish adds what the command lines of masters and nodes share.
func finish(line []string, job *v1alpha1.ElasticJob) []string {
	line = append(line,
		"--nproc-per-node", strconv.Itoa(int(NprocPerNode(job))),
		"--run-dir", RunDir)
	line = append(line, job.Spec.Flags...)
	if job.Spec.Script.Module != "" {
		line = append(line, "--module", job.Spec.Script.Module)
	} else {
		line = append(line, job.Spec.Script.File)
	}
	return append(line, job.Spec.Script.Args...)
}

// Environment is what the launcher may read beside its flags. A launcher that does not know one of
// these names ignores it, which would not be so with a flag.
func Environment(job *v1alpha1.ElasticJob, term int64, graceSeconds int64) map[string]string {
	environment := map[string]string{
		"PACELINE_GRACE_SECONDS": strconv.FormatInt(graceSeconds, 10),
		// What a command in the pod advises is typed on the user's host.
		"PACELINE_ON": fmt.Sprintf("kubernetes/%s/%s", job.Namespace, job.Name),
	}
	if job.Spec.Nodes.Unit > 1 {
		environment["PACELINE_JOB_UNIT"] = strconv.Itoa(int(job.Spec.Nodes.Unit))
	}
	if term != 0 {
		environment["PACELINE_MASTER_TERM"] = strconv.FormatInt(term, 10)
	}
	return environment
}
