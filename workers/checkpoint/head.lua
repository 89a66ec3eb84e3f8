-- what a record or write begins with; its data follows
local function head(packed)
  local _, parts = cmsgpack.unpack_one(packed, 4)
  return parts
end
