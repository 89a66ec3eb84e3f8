-- A run's ledger: for each tool call {tool, tool_call_id, approval?, attempts = {number = {state, start, at, note?}}},
-- an attempt being unknown from its start until it is done or failed.
local function call_of(run, call)
  local record = redis.call('HGET', K.run_ledger(run), call)
  return record and cjson.decode(record)
end

local function save_call(run, call, record)
  redis.call('HSET', K.run_ledger(run), call, cjson.encode(record))
end

-- The run's holder may, and without a token whoever uses middleware without runs.
local function may_change_ledger(run, token)
  if token == '' then return redis.call('EXISTS', K.run(run)) == 0 end
  return fenced(run, token)
end

-- The request by which a call was let run.
local function approval_of_call(run, record)
  local found
  for _, id in ipairs(redis.call('LRANGE', K.run_pause(run), 0, -1)) do
    local a = redis.call('HMGET', K.approval(id), 'tool_call_id', 'kind', 'delivered', 'tool')
    if a[1] == record.tool_call_id and a[2] == 'tool_call' and a[3] ~= '' and a[4] == record.tool then
      if found then return nil end -- of two agents that gave their calls the same id
      found = id
    end
  end
  return found
end

-- Calls that were under way in a worker that is gone: what their requests came to is unknown from here on.
local function doubt(run)
  local calls, approvals = {}, {}
  for _, field in ipairs(redis.call('HKEYS', K.run_ledger(run))) do
    if not string.find(field, ':', 1, true) then
      local record = call_of(run, field)
      for _, attempt in pairs(record.attempts) do
        if attempt.state == 'unknown' and not attempt.note then
          calls[#calls + 1] = {tool = record.tool, tool_call_id = record.tool_call_id}
          if record.approval then
            approvals[#approvals + 1] = record.approval
            redis.call('HSET', K.approval(record.approval), 'outcome', 'unknown')
            announce(record.approval, 'outcome')
          end
        end
      end
    end
  end
  return calls, approvals
end

-- Failed attempts are made again after a retry; the others close up.
local function forget_failures(run)
  local ledger = K.run_ledger(run)
  for _, call in ipairs(redis.call('HKEYS', ledger)) do
    if not string.find(call, ':', 1, true) then
      local record, numbers, kept = call_of(run, call), {}, {}
      for n in pairs(record.attempts) do numbers[#numbers + 1] = tonumber(n) end
      table.sort(numbers)
      local to = 0
      for _, n in ipairs(numbers) do
        local attempt, field = record.attempts[int(n)], call .. ':' .. int(n)
        local payload = redis.call('HGET', ledger, field)
        redis.call('HDEL', ledger, field)
        if attempt.state ~= 'failed' then
          to = to + 1
          kept[int(to)] = attempt
          if payload then redis.call('HSET', ledger, call .. ':' .. int(to), payload) end
        end
      end
      record.attempts = kept
      save_call(run, call, record)
    end
  end
end
