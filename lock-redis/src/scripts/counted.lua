
-- What stands below is a function here.
local function counted(fence, limit)
