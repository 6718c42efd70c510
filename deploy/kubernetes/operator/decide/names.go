package decide

import (
	"strconv"
)

// MasterName is the name of a master's pod.
func MasterName(job string, term int64) string {
	return job + "-master-" + strconv.FormatInt(term, 10)
}

// NodeName is a node's name in the job.
func NodeName(index uint32) string {
	return "node" + strconv.FormatUint(uint64(index), 10)
}

// NodePodName is the name of a node's pod.
func NodePodName(job string, id NodeID) string {
	return job + "-" + NodeName(id.Index) + "-" + strconv.FormatUint(uint64(id.Incarnation), 10)
}
