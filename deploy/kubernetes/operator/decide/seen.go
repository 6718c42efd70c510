package decide

import (
	"strconv"

	"paceline.dev/operator/api/v1alpha1"
)

// seen holds the highest incarnation of each index for which a pod has existed.
type seen map[uint32]uint32

func (s seen) add(index, incarnation uint32) {
	if old, ok := s[index]; !ok || incarnation > old {
		s[index] = incarnation
	}
}

// fromStatus reads the durable form. What is malformed there is left out.
func fromStatus(status v1alpha1.NodesSeen) seen {
	result := seen{}
	for index := int32(0); index < status.Below; index++ {
		result[uint32(index)] = 0
	}
	for text, incarnation := range status.Incarnations {
		index, err := strconv.ParseUint(text, 10, 32)
		if err == nil && incarnation >= 0 {
			result.add(uint32(index), uint32(incarnation))
		}
	}
	return result
}

// toStatus makes the durable form: small where few nodes were replaced.
func (s seen) toStatus() v1alpha1.NodesSeen {
	result := v1alpha1.NodesSeen{}
	for {
		if _, ok := s[uint32(result.Below)]; !ok {
			break
		}
		result.Below++
	}
	for index, incarnation := range s {
		if incarnation == 0 && index < uint32(result.Below) {
			continue
		}
		if result.Incarnations == nil {
			result.Incarnations = map[string]int32{}
		}
		result.Incarnations[strconv.FormatUint(uint64(index), 10)] = int32(incarnation)
	}
	return result
}
