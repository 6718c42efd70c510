#pragma once

// The versioned JSON that scripts read: "paceline.status/1" and "paceline.event/1".

#include <string>

#include "paceline/wire/messages.h"

namespace paceline::wire {

// {"schema","job":{id,name,phase,pending,exit_code,final_reason,age_seconds,goodput,restarts,
//  failures,step,steps_per_second,since_step_seconds,steps_total,loss,last_seq,excluded_hosts,
//  links},"master":{pid,incarnation,journal},"world":{generation,size},
//  "nodes":[{id,name,state,reason,address,agent_pid,connected,silent_ms,seat,
//  generation,"ranks":[{rank,local_rank,pid,generation,state,step,step_count,saved_step,loss,
//  exit}]}]}
// What is not known is null.
std::string StatusJson(const JobStatus& status);

// One line: {"schema","seq","time","kind","node","rank","generation","step","sentence","causes",
//  "details":{…},"members":[{node,seat,first_rank,ranks}]}; time is seconds since the Unix epoch.
std::string EventJson(const JobEvent& event);

}  // namespace paceline::wire
