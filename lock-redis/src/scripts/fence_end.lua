
end -- of the function that fence.lua begins
return { false, (write()) }
